// Checks whether a running etcd is what the store needs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "holdfast/guarantees.h"
#include "src/stores/etcd/keys.h"
#include "src/stores/etcd/transport/rpc.h"
#include "src/stores/etcd/url.h"

namespace holdfast::stores::etcd {

// `then` is called on the thread of `rpc`.
void examine(Rpc& rpc, const EtcdAddress& address, const Keys& keys, std::chrono::seconds session,
             base::BootInstant deadline, Rpc::Then<std::vector<Finding>> then);

}  // namespace holdfast::stores::etcd
