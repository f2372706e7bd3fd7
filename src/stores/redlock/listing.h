// All locks of a cluster, by prefix: SCAN at every node, then a look at each name.
//
// Thread-safety: on the loop. Not guaranteed: one instant for all locks.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/lock_info.h"
#include "src/port/store.h"
#include "src/stores/redlock/nodes.h"

namespace holdfast::stores::redlock {

using Inspect =
    std::function<void(const std::string& name, port::Done<std::optional<LockInfo>> done)>;

// Calls `inspect` for each. Errors: kUnavailable (no majority answers).
void list_locks(Nodes& nodes, Inspect inspect, std::string prefix, std::size_t limit,
                base::BootInstant deadline, port::Done<std::vector<LockInfo>> done);

}  // namespace holdfast::stores::redlock
