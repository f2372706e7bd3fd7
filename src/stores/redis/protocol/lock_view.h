// The stored state of a lock, read for people.
//
// Guarantee: leases that are over are left out, though nobody has dropped them yet.
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

// The answer of the script kInspect. nullopt: there is nothing to tell of the lock.
Result<std::optional<LockInfo>> view_of(const Reply& reply, const std::string& name);

// A record says by itself that nobody holds or waits; then there is no need to inspect the lock.
bool is_free(std::string_view record);

}  // namespace holdfast::stores::redis
