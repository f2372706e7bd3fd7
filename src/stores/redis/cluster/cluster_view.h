// The answer of one node of a Redis Cluster to CLUSTER NODES.
//
// Thread-safety: values and pure functions. Errors: kCorruptState: it is no such answer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/result.h"

namespace holdfast::stores::redis {

struct NodeAddress {
  std::string host;  // Empty: that of the connection on which it was asked.
  std::uint16_t port = 0;
  std::string name{};  // If the node has one.
};

struct ClusterNode {
  NodeAddress at;
  bool is_asked = false;  // It is the node that gave this answer.
  bool is_primary = false;
  bool failed = false;  // By the agreement of the others.
  std::uint64_t epoch = 0;
  // First and last. Without marks of slots that are about to move.
  std::vector<std::pair<std::uint16_t, std::uint16_t>> slots;
};

// Leaves out nodes that have no address, or have not joined.
Result<std::vector<ClusterNode>> parse_cluster_nodes(std::string_view text);

// "MOVED 3999 127.0.0.1:6381" and "ASK ...": the address. Errors: kCorruptState.
Result<NodeAddress> redirected_to(std::string_view text);

}  // namespace holdfast::stores::redis
