// Merges the recorded events of all processes of a run into one history.
//
// Guarantee: every published event, in the order of the stamps; equal stamps in the order of their
// process' slots. Torn slots are counted, never read. A region that overflowed, is truncated, or
// has another version is an error that names the file, so no history has a hole.
// Not guaranteed: events of processes that still run may be missing; collect when they have ended.
// Complexity: O(n log n) for n events, all in memory.
// Errors: kUnavailable (cannot read), kCorruptState, kVersionMismatch, kQueueFull (overflowed).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "holdfast/result.h"

#include "lab/history/event.h"

namespace holdfast::lab {

struct Collected {
  std::vector<Event> events;
  std::size_t processes = 0;
  std::size_t torn = 0;  // Reserved by a process that died before it had published.
};

// All `*.events` files of the folder. A process that died before its region was ready recorded
// nothing, and is skipped.
Result<Collected> collect(const std::string& folder);

}  // namespace holdfast::lab
