// The failures of one round over all addresses of a store, as one error.
//
// A server of the lock service that stands by is well, and says who was last seen leading. So its
// refusal does not hide that another server does not answer, nor the other way round. Both
// messages begin with the store, which is told once.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "holdfast/result.h"

namespace holdfast::stores::redis {

class FailedRound {
 public:
  void add(Error why, bool stands_by) { (stands_by ? standby_ : other_) = std::move(why); }
  // `otherwise`: for a round over no address.
  Error told(Error otherwise) const {
    if (!standby_ || !other_) return standby_.value_or(other_.value_or(std::move(otherwise)));
    std::string standby = standby_->message();
    const std::size_t place = standby.find(": ");
    const bool same = other_->message().starts_with(standby.substr(0, place));
    if (same && place != standby.npos) standby.erase(0, place + 2);
    return {standby_->code(), other_->message() + "; " + standby};
  }

 private:
  std::optional<Error> standby_;
  std::optional<Error> other_;
};

}  // namespace holdfast::stores::redis
