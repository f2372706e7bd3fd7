// Examines how far the nodes of a cluster, as configured now, keep the store's guarantees.
//
// Every node is asked, because each has a configuration of its own. Nodes that deserve the same
// finding share it: "2 of 3 nodes (h1:6379, h2:6379): maxmemory-policy is allkeys-lru".
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/port/store.h"
#include "src/stores/redis/protocol/reply.h"

namespace holdfast::stores::redis {

struct ClusterNodeAccess {
  std::string address;  // "host:port", as people read it.
  // A command to this node alone; it must not be redirected.
  std::function<void(const std::vector<std::string_view>& words, base::BootInstant deadline,
                     port::Done<Reply> done)>
      read;
};

struct ClusterAccess {
  std::vector<ClusterNodeAccess> nodes;  // All that are known: primaries and replicas.
  // Acquires and releases a lock, with everything that locks need.
  std::function<void(base::BootInstant deadline, port::Done<void> done)> try_lock;
  std::function<void(base::BootInstant deadline, port::Done<void> done)> subscribe;
  bool encrypted = false;
};

// Runs on the loop. A node that does not answer is a finding. kUnavailable: none does.
void examine_cluster(ClusterAccess access, base::BootInstant deadline,
                     port::Done<std::vector<Finding>> done);

}  // namespace holdfast::stores::redis
