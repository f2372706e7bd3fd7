// What the ZooKeeper store promises, as data.
#pragma once

#include <chrono>

#include "holdfast/guarantees.h"
#include "src/stores/zookeeper/nodes.h"

namespace holdfast::stores::zookeeper {

Guarantees promises(std::chrono::milliseconds session, Recipe recipe = Recipe::kOwn);

}  // namespace holdfast::stores::zookeeper
