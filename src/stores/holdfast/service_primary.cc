#include "src/stores/holdfast/service_primary.h"

#include <utility>

#include "holdfast/detail/number.h"
#include "src/stores/redis/protocol/fields.h"

namespace holdfast::stores::holdfast {

ServicePrimary::ServicePrimary(const redis::RedisAddress& address)
    : host_(address.host), resolver_(address) {}

Result<std::uint64_t> ServicePrimary::judge_term(std::string_view attached) {
  redis::Fields fields(attached);
  const bool version = fields.word() == "HF1";
  const std::string journal(fields.word());
  const auto shard = fields.number<std::uint32_t>();
  // "7-3fa2": the number grows with each term of a journal.
  const std::string_view word = fields.word();
  const auto number = detail::parse_number<std::uint64_t>(word.substr(0, word.find('-')));
  const std::uint64_t term = number.value_or(0);
  if (!version || !fields.good() || !fields.rest().empty() || shard != 0 || term == 0) {
    return Error{Errc::kVersionMismatch,
                 ": the lock service speaks another version of the protocol: update this program"};
  }
  const base::LocalLock lock(mutex_);
  if (journal_.empty()) journal_ = journal;
  if (journal_ != journal) {
    return Error{Errc::kUnavailable, ": another lock service answers here, with journal " +
                                         journal + " instead of " + journal_ +
                                         ": its locks are not this client's; start the right "
                                         "server, or connect anew"};
  }
  if (term < generation()) {
    return Error{Errc::kUnavailable, ": a server of an earlier term (" + std::to_string(term) +
                                         ") answers; " + std::to_string(generation()) +
                                         " was seen already"};
  }
  return term;
}

void ServicePrimary::enter(std::uint64_t generation) {
  {
    const base::LocalLock lock(mutex_);
    if (generation <= this->generation()) return;
    raise(generation);
  }
  tell_switch();
}

redis::Location ServicePrimary::cached() const {
  redis::Location known = resolver_.cached();
  known.generation = generation();
  return known;
}

// The callback may come when this object is gone.
void ServicePrimary::refresh(std::function<void(Result<redis::Location>)> done) {
  resolver_.refresh([now = generation(), done = std::move(done)](Result<redis::Location> found) {
    if (found) found->generation = now;
    done(std::move(found));
  });
}

std::string ServicePrimary::late() const {
  return "looking up host '" + host_ + "' takes too long: fix the name service";
}

}  // namespace holdfast::stores::holdfast
