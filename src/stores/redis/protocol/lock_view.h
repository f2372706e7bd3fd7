// The stored state of a lock, read for people.
//
// Guarantee: expired leases are left out, even before a script removes them.
// Thread-safety: pure functions.
// Errors: kCorruptState, kVersionMismatch.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "holdfast/lock_info.h"
#include "holdfast/result.h"
#include "src/stores/redis/protocol/reply.h"

namespace holdfast::stores::redis {

// Reads the answer of the script kInspect. nullopt if the lock has neither state nor trace.
Result<std::optional<LockInfo>> view_of(const Reply& reply, const std::string& name);

// Whether the record alone shows that nobody holds or waits. Then the lock need not be inspected.
bool is_free(std::string_view record);

}  // namespace holdfast::stores::redis
