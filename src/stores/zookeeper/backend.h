// The contenders' operations on ZooKeeper: src/contend/backend.h describes each one.
//
//   BASE/locks/<name>          container; its data is the lock's record
//   BASE/locks/<name>/<node>   contenders, ephemeral sequential (nodes.h)
//   BASE/locks/<name>/v        the value, persistent
//   BASE/sessions/<id>         ephemeral: others write to it to notify its client
//   BASE/sessions/<id>-beat    ephemeral: what its client writes to keep the session
#pragma once

#include <memory>

#include "src/contend/backend.h"
#include "src/port/registry.h"
#include "src/stores/zookeeper/url.h"

namespace holdfast::stores::zookeeper {

std::unique_ptr<contend::Backend> make_backend(ZookeeperAddress address,
                                               const port::StoreContext& context);

}  // namespace holdfast::stores::zookeeper
