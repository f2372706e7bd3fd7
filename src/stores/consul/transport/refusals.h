// Decides which refusals of the token may be temporary.
//
// A new leader answers while it still applies its log. Until then it does not know the tokens in
// that log, and refuses them in the words for a deleted token ("ACL not found", 403). A queued
// waiter must not leave the queue for that.
//
//   what this client has seen so far                            a refusal is
//   nothing that it changed, or no sign of an outage            the last word
//   a change of its own, and a sign of an outage since then     doubtful, until kSettles after the
//                                                               last such sign; then the last word
//
// A sign of an outage: no answer, or one that says that the servers cannot serve.
//
// Guarantee: a refusal without an outage is reported at once; after an outage, at the latest
// kSettles after its end. Thread-safety: one thread at a time. Time: boot time, as told.
// Errors: cannot fail.
#pragma once

#include <chrono>
#include <optional>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/stores/consul/transport/http.h"

namespace holdfast::stores::consul {

class Refusals {
 public:
  // A server that is very busy reads a long log for so long at most.
  static constexpr std::chrono::seconds kSettles{30};

  // The answer, marked (HttpReply::doubtful) where it is a refusal that may be passing; of a
  // certificate, kUnavailable then. `changes`: of a request that asked for a change.
  Result<HttpReply> weigh(base::BootInstant now, bool changes, Result<HttpReply> answer);

 private:
  bool doubtful(base::BootInstant now) const;

  bool accepted_ = false;
  std::optional<base::BootInstant> outage_at_;  // Its last sign, after the first change.
};

}  // namespace holdfast::stores::consul
