// The guarantees of the ZooKeeper store, as data.
#pragma once

#include <chrono>

#include "holdfast/guarantees.h"

namespace holdfast::stores::zookeeper {

// `agreed` is the session length that the servers granted. It may be below the requested one.
Guarantees guarantees(std::chrono::milliseconds session, std::chrono::milliseconds agreed);

}  // namespace holdfast::stores::zookeeper
