// A Redis Cluster of a test's own: real servers on loopback, with data folders of their own.
//
//   HOLDFAST_NEEDS_REDIS();
//   RedisCluster cluster({.replicas = 1});  // Every node serves or knows all slots now.
//   auto client = Client::connect(cluster.url());
//   const int slot = cluster.slot_of(key);
//   cluster.move_slot(slot, (cluster.owner(slot) + 1) % 3);
//   cluster.node(0).kill9();
//   cluster.take_over(cluster.replica_of(0));
//
// Nodes are numbered: first the primaries, then their replicas. The numbers stay when roles change.
//
// Guarantee: as RedisServer. A call that changes the cluster returns when all running nodes know.
// Not guaranteed: that a node which is paused for longer than node_timeout keeps its slots.
// Thread-safety: one thread at a time. Blocking: every call is bounded by twice kPatience.
// Errors: std::runtime_error, with what the nodes say of the cluster.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/redis_server.h"

namespace holdfast::support {

struct ClusterOptions {
  std::size_t primaries = 3;
  std::size_t replicas = 0;  // Each primary has so many.
  // After this a silent node counts as failed. Long, so that a busy machine causes no election.
  milliseconds node_timeout{15'000};
  bool full_coverage = true;  // A slot without a node stops the whole cluster.
  RedisOptions server{};      // Each node has these.
};

class RedisCluster {
 public:
  static constexpr int kSlots = 16384;

  explicit RedisCluster(const ClusterOptions& options = {});

  std::size_t size() const { return nodes_.size(); }
  std::size_t primaries() const { return options_.primaries; }
  RedisServer& node(std::size_t index) { return nodes_.at(index)->server; }
  // Not by the server's own methods, so that a paused node is not asked for anything.
  void pause(std::size_t index);
  void resume(std::size_t index);
  std::size_t replica_of(std::size_t primary, std::size_t number = 0) const;
  const std::string& id(std::size_t index) const { return nodes_.at(index)->id; }

  // "127.0.0.1:1,127.0.0.1:2": the first primaries.
  std::string hosts() const;
  std::string url(const std::string& query = {}) const;

  int slot_of(const std::string& key);
  // The number of the node that serves the slot, as the first node that answers has it.
  std::size_t owner(int slot);
  RedisServer& owner_of(const std::string& key) { return node(owner(slot_of(key))); }

  // One whole move while clients go on.
  void move_slot(int slot, std::size_t to);
  // Its parts. While a move is open, the source serves the keys that it still has and sends others
  // to `to` with ASK; `to` serves the slot after ASKING.
  void open_move(int slot, std::size_t to);
  // Moves these keys, which must be in the slot; missing ones are skipped.
  void move_keys(const std::vector<std::string>& keys, std::size_t from, std::size_t to);
  void move_all_keys(int slot, std::size_t from, std::size_t to);
  void close_move(int slot, std::size_t to);
  // Both nodes forget the move; the keys stay where they are.
  void abandon_move(int slot, std::size_t to);

  // The replica and its primary change roles, which loses nothing.
  void hand_over(std::size_t replica);
  // The replica becomes a primary without asking anybody: for a primary that is down or cut off.
  void take_over(std::size_t replica);
  // Until every node that runs names `owner` for the slot.
  void await_owner(int slot, std::size_t owner);
  // Until the nodes have elected another owner of the slot; returns it.
  std::size_t await_other_owner(int slot, std::size_t than);
  // Until every node that runs knows all nodes, and a node for each slot.
  void await_whole();
  // Until the replicas of this primary have all that it has.
  void await_replicas(std::size_t primary);

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  struct Node {
    Node(const ClusterOptions& options, const ReservedPort& bus_port);

    RedisServer server;
    std::string id;
    std::uint16_t bus;
    bool paused = false;
  };

  Reply cluster(std::size_t index, std::vector<std::string> words);
  bool answers(std::size_t index) { return node(index).running() && !nodes_[index]->paused; }
  std::size_t owner_seen_by(std::size_t index, int slot);
  std::size_t with_port(std::int64_t port) const;
  void introduce_all();
  bool roles_are_known_to(std::size_t index);
  void await_voters();
  void await(const char* what, const std::function<bool()>& holds);

  ClusterOptions options_;
  std::vector<std::unique_ptr<ReservedPort>> bus_ports_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace holdfast::support
