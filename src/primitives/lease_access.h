// Makes a lease of an acquisition that holds the lock, and finds the acquisition of a lease.
#pragma once

#include <memory>
#include <utility>

#include "holdfast/lease.h"
#include "src/session/acquisition.h"

namespace holdfast::detail {

struct LeaseAccess {
  static Lease make(std::shared_ptr<session::Acquisition> acquisition) {
    return Lease(std::move(acquisition));
  }
  // nullptr: it has been moved from.
  static const std::shared_ptr<session::Acquisition>& of(const Lease& lease) {
    return lease.acquisition_;
  }
};

inline std::shared_ptr<session::Acquisition> ticket(const Lease& lease) {
  return LeaseAccess::of(lease);
}

}  // namespace holdfast::detail
