// How the library makes a lease of a contender that holds, and gets at the contender of a lease.
#pragma once

#include <memory>
#include <utility>

#include "holdfast/lease.h"
#include "src/session/contender.h"

namespace holdfast::detail {

struct LeaseAccess {
  static Lease make(std::shared_ptr<session::Contender> contender) {
    return Lease(std::move(contender));
  }
  // nullptr: it has been moved from.
  static const std::shared_ptr<session::Contender>& of(const Lease& lease) {
    return lease.contender_;
  }
};

inline std::shared_ptr<session::Contender> ticket(const Lease& lease) {
  return LeaseAccess::of(lease);
}

}  // namespace holdfast::detail
