// Examines how far the nodes, as they run now, keep the store's guarantees.
#pragma once

#include <functional>
#include <vector>

#include "holdfast/guarantees.h"
#include "src/port/store.h"
#include "src/stores/redlock/nodes.h"

namespace holdfast::stores::redlock {

// Takes and releases a lock of its own.
using TryLock = std::function<void(port::Done<void> done)>;

// Runs on the loop. A node that does not answer is a finding.
void examine(Nodes& nodes, TryLock try_lock, base::BootInstant deadline,
             port::Done<std::vector<Finding>> done);

}  // namespace holdfast::stores::redlock
