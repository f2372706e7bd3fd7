// What the ZooKeeper store promises, as data.
#pragma once

#include <chrono>

#include "holdfast/guarantees.h"

namespace holdfast::stores::zookeeper {

Guarantees promises(std::chrono::milliseconds session);

}  // namespace holdfast::stores::zookeeper
