// The guarantees of the ZooKeeper store, as data.
#pragma once

#include <chrono>

#include "holdfast/guarantees.h"

namespace holdfast::stores::zookeeper {

// `agreed`: the session's length as the servers have it, which may be less than was asked for.
Guarantees guarantees(std::chrono::milliseconds session, std::chrono::milliseconds agreed);

}  // namespace holdfast::stores::zookeeper
