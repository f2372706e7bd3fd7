// Locks on ZooKeeper: contenders are ephemeral sequential nodes in a container per lock.
// How it works: docs/stores/zookeeper.md.
#pragma once

#include <memory>

#include "holdfast/result.h"
#include "src/port/registry.h"

namespace holdfast::stores {

// Connects with the first request.
Result<std::unique_ptr<port::Store>> make_zookeeper_store(port::StoreUrl url,
                                                          const port::StoreContext& context);

}  // namespace holdfast::stores
