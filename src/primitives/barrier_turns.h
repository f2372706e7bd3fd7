// The turns in which participants change the record of a barrier: under the lock beside it, one at
// a time, each for a moment.
//
// Guarantee: a change starts from the record as it is, without the members that are gone. It is
// stored or, unless the call ends with kOutcomeUnknown, was not made.
// Thread-safety: flows of one scope, one at a time. Blocking: as barrier.h says of the record.
// Errors: of the change; kTimedOut, kCancelled: nothing was changed; kUnavailable: the record could
// not be had; else the store's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "holdfast/barrier.h"
#include "src/primitives/barrier_record.h"
#include "src/primitives/flow.h"

namespace holdfast::primitives {

struct BarrierState {
  const std::shared_ptr<session::Core> core;
  const std::string name;
  const std::uint32_t parties;
  const BarrierPolicy policy;
};

namespace barring {

using BarrierPtr = std::shared_ptr<const BarrierState>;

// kInvalidArgument: there can be no such barrier.
Result<session::InnerName> record_name(const BarrierState& barrier);

// The time that a call waits for the record.
enum class Patience : std::uint8_t {
  kOfTheCall,  // Until its end, or its cancellation.
  kToUndo,     // For as long as one who died over the record holds it: what has begun is undone.
};

using Change = std::function<Result<void>(Record& record)>;

// Changes the record, and gives what it is then.
Flow<Record> change(ScopePtr scope, BarrierPtr barrier, Change how,
                    Patience patience = Patience::kOfTheCall);

struct Look {
  Record record;    // As it is written.
  bool is_settled;  // No member of it is gone.
};

Flow<Look> view(ScopePtr scope, BarrierPtr barrier, session::InnerName at);
// Without those who are gone.
Flow<Record> look(ScopePtr scope, BarrierPtr barrier);

}  // namespace barring
}  // namespace holdfast::primitives
