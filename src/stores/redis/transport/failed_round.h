// The failures of one round over all addresses of a store, as one error.
//
// A server of the lock service that stands by is well, and says who was last seen leading. So its
// refusal does not hide that another server does not answer, nor the other way round.
//
// Thread-safety: one thread at a time.
#pragma once

#include <optional>
#include <utility>

#include "holdfast/result.h"

namespace holdfast::stores::redis {

class FailedRound {
 public:
  void add(Error why, bool stands_by) { (stands_by ? standby_ : other_) = std::move(why); }
  // `otherwise`: for a round over no address.
  Error told(Error otherwise) const {
    if (!standby_ || !other_) return standby_.value_or(other_.value_or(std::move(otherwise)));
    return {standby_->code(), other_->message() + "; " + standby_->message()};
  }

 private:
  std::optional<Error> standby_;
  std::optional<Error> other_;
};

}  // namespace holdfast::stores::redis
