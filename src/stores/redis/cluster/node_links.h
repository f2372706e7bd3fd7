// Connections to the nodes of a Redis Cluster whose caller waits for each answer: for records.
//
// Guarantee: a request counts as done only by the answer of a node that serves its slot. MOVED is
// followed, at most five times. TRYAGAIN, ASK and CLUSTERDOWN are waited for: a request of two keys
// of which one is never there is not served while its slot moves.
// Not guaranteed: that a promoted replica has what its primary has answered. Nor that a primary
// that was cut off does not answer for a while; its changes are lost then.
//
// Thread-safety: one call at a time. Ownership: shares the remote.
// Blocking: until the deadline. A node that does not answer costs all of one call's time, and the
// next call begins with another node.
// Errors: those of DirectLink; kInvalidArgument: no node of a cluster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/stores/redis/cluster/cluster_view.h"
#include "src/stores/redis/protocol/reply.h"
#include "src/stores/redis/transport/direct_link.h"
#include "src/stores/redis/transport/remote.h"

namespace holdfast::stores::redis {

class NodeLinks {
 public:
  // `remote`: what all nodes have in common, and those that the URL names.
  explicit NodeLinks(RemotePtr remote);

  // Asks the nodes of the URL for all others.
  Result<void> open(base::BootInstant by);

  // As DirectLink::Turn::call(), at the node that serves the slot. Only the first reply is looked
  // at for a redirection.
  Result<std::vector<Reply>> call(std::uint16_t slot, std::string_view wire, std::size_t replies,
                                  base::BootInstant by, bool reads_only);

  void close();

 private:
  struct Node {
    explicit Node(RemotePtr its) : remote(std::move(its)), link(remote) {}
    RemotePtr remote;
    DirectLink link;
  };

  Node& node_at(const NodeAddress& at, const Remote& told_by);
  Node& owner(std::uint16_t slot);
  void forget(std::uint16_t slot);

  const RemotePtr remote_;
  const std::string where_;
  std::map<std::string, std::unique_ptr<Node>> by_address_;
  std::vector<Node*> nodes_;  // In the order in which they became known.
  std::size_t turn_ = 0;      // Asked first for a slot whose owner is not known.
  std::map<std::uint16_t, Node*> owners_;
};

}  // namespace holdfast::stores::redis
