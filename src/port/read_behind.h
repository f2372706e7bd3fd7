// An acquisition and a read that must come after it, sent together.
//
// Guarantee: the value that `done` is given was read after the acquisition was made. For that both
// requests must go over one channel that answers in the order of execution, also over a reconnect.
// If the read is answered first, it went ahead, and is repeated.
// Thread-safety: the loop only. Errors: the acquisition's; kOutcomeUnknown if the read failed.
#pragma once

#include <functional>
#include <string>

#include "src/port/store.h"

namespace holdfast::port {

// Whether the store has something of it now.
inline bool is_there(const AcquisitionState& state) {
  return state.status == AcquisitionStatus::kHeld || state.status == AcquisitionStatus::kWaiting;
}

using AcquireCall = std::function<void(Done<AcquisitionState>)>;
using ReadCall = std::function<void(Done<std::string>)>;

void acquire_and_read_behind(const AcquireCall& acquire, const ReadCall& read,
                             Done<Store::StateAndValue> done);
// The read is sent when the acquisition was answered, over whatever channel.
void acquire_then_read(const AcquireCall& acquire, ReadCall read, Done<Store::StateAndValue> done);

}  // namespace holdfast::port
