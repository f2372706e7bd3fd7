// The store of a run, its servers, and the links of the clients to them, as the topology describes
// them.
//
// Thread-safety: one thread at a time.
// Ownership: everything ends with the object, and nothing is left on the host. A store of kind
// `url` belongs to the user; a run only uses locks in it.
// Errors: std::runtime_error says why the run is impossible here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/clock_shift.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/server_network.h"
#include "tests/support/small_disk.h"

#include "lab/rig/node.h"
#include "lab/scenario/topology.h"

namespace holdfast::lab {

class Rig {
 public:
  // `folder` belongs to the run. `waiting` is called again and again while a server starts; it may
  // throw. `shards`: those of the run's locks, where the store has several.
  Rig(const Scenario& scenario, const std::string& folder, std::function<void()> waiting = {},
      std::vector<std::uint32_t> shards = {});

  // For the client in this slot (1, 2, ...).
  std::vector<std::string> urls(std::uint32_t slot) const;
  // NAME=value for every client.
  const std::vector<std::string>& client_environment() const { return environment_; }

  // The links of the client in this slot, one to each node; empty without proxies.
  using Links = std::vector<std::unique_ptr<support::FaultProxy>>;
  const Links& links(std::uint32_t slot) const { return links_.at(slot - 1); }
  support::ClockShift* clock() { return clock_.get(); }

  // leader() gives the number of the leading node, from 1 on, or the first node's if none says
  // that it leads. Each call means the next shard of those that the run's locks are in.
  std::uint32_t leader();
  // A node that works and does not lead; the node after the leader if there is none.
  std::uint32_t follower();
  // The same of the nodes' members.
  std::uint32_t leading_member() const;
  std::uint32_t following_member() const;
  // Throws NodeFailed if a node or a member has ended by itself.
  void look_after();
  // Together with the node's member.
  void pause_server(std::uint32_t node);
  void resume_server(std::uint32_t node);
  // `with_memory`: the server knows its state again after the next start.
  void stop_server(std::uint32_t node, bool with_memory);
  // The node's member alone: it is killed, and keeps what is on its disk.
  void pause_member(std::uint32_t node) { members_.at(node - 1)->pause(); }
  void resume_member(std::uint32_t node) { members_.at(node - 1)->resume(); }
  void kill_member(std::uint32_t node) { members_.at(node - 1)->kill(); }
  void start_member(std::uint32_t node);
  // Returns when all nodes are ready; at once if one of them does not run.
  void await_ready();
  // Returns when the store is ready again, unless other nodes do not run.
  void start_server(std::uint32_t node, bool with_memory);
  // Kills the primary before it has sent its last changes to the replica, which takes over.
  void cut_replication();
  void fail_over();
  // Takes all room on the store's small disk; without one, that of the topology's `fill`.
  void fill();
  void make_room();
  // Cuts the node off from all others, or from the next one only; and ends that. A node's member
  // stays with it.
  void cut_off(std::uint32_t node);
  void rejoin(std::uint32_t node);
  void cut_off_from_next(std::uint32_t node) { cut_all(ways_between(node, next_to(node))); }
  void rejoin_next(std::uint32_t node) { heal_all(ways_between(node, next_to(node))); }
  // Cuts the member off from all servers and members, or from all servers only; and ends that.
  void cut_off_member(std::uint32_t node) { network_->cut_off(host_of_member(node)); }
  void rejoin_member(std::uint32_t node) { network_->rejoin(host_of_member(node)); }
  void cut_member_from_servers(std::uint32_t node) { cut_all(ways_to_member(node)); }
  void rejoin_member_to_servers(std::uint32_t node) { heal_all(ways_to_member(node)); }
  // Cuts the way between a client and a node, and ends that. For topologies without proxies.
  void cut_client(std::uint32_t slot, std::uint32_t node) {
    network_->cut(host_of_client(slot), node - 1);
  }
  void heal_client(std::uint32_t slot, std::uint32_t node) {
    network_->heal(host_of_client(slot), node - 1);
  }
  // For Command::network of that client; -1: the lab's own network.
  int network_of_client(std::uint32_t slot) const;
  // Moves some of the node's locks to another node: first a part of their data, then all.
  void begin_move(std::uint32_t node) const;
  void end_move(std::uint32_t node) const;

  // For messages: "etcd", "3.4.23"; for a user's store the scheme of its URL.
  const std::string& store() const { return store_; }
  const std::string& version() const { return version_; }

 private:
  void start(const Topology& topology);
  void start_servers(const Topology& topology);
  void start_replica(const Topology& topology);
  // `member`: the member of the node of this number.
  std::unique_ptr<Node> make_node(std::int64_t number, bool member = false) const;
  void launch_members(const Topology& topology);
  std::vector<Node*> all_nodes() const;  // Members first, because servers need them.
  void make_network();
  // Pairs of hosts in the network.
  using Ways = std::vector<std::pair<std::size_t, std::size_t>>;
  void cut_all(const Ways& ways);
  void heal_all(const Ways& ways);
  Ways ways_between(std::uint32_t one, std::uint32_t other) const;
  Ways ways_to_member(std::uint32_t node) const;
  std::uint32_t next_to(std::uint32_t node) const {
    return node % static_cast<std::uint32_t>(nodes_.size()) + 1;
  }
  // In the network, where the members stand behind the servers.
  std::size_t host_of_member(std::uint32_t node) const { return nodes_.size() + node - 1; }
  // There, the clients stand behind both.
  std::size_t host_of_client(std::uint32_t slot) const { return network_->size() + slot - 1; }
  std::string url_through(const std::string& hosts, std::uint16_t first) const;

  const Scenario& scenario_;
  const std::string folder_;
  const std::function<void()> waiting_;
  const std::vector<std::uint32_t> shards_;
  std::size_t asked_ = 0;  // For a leader.
  std::string url_;        // Set if the lab starts no servers.
  std::string store_;
  std::string version_;
  std::vector<std::string> environment_;
  std::unique_ptr<support::SmallDisk> disk_;
  std::unique_ptr<support::ClockShift> clock_;
  std::unique_ptr<support::ServerNetwork> network_;
  std::vector<std::unique_ptr<Node>> members_;  // One of each node, or none.
  std::vector<std::unique_ptr<Node>> nodes_;
  std::unique_ptr<Node> replica_;
  std::unique_ptr<support::FaultProxy> replication_;
  std::vector<Links> links_;  // By slot, from 1 on.
};

}  // namespace holdfast::lab
