#include "tests/support/redis_cluster.h"

#include <set>
#include <stdexcept>
#include <thread>

namespace holdfast::support {
namespace {

RedisOptions node_options(const ClusterOptions& options, std::uint16_t bus) {
  RedisOptions node = options.server;
  const std::vector<std::string> lines = {
      "cluster-enabled yes",
      "cluster-port " + std::to_string(bus),
      "cluster-node-timeout " + std::to_string(options.node_timeout.count()),
      std::string("cluster-require-full-coverage ") + (options.full_coverage ? "yes" : "no"),
      "cluster-replica-validity-factor 0",
      "cluster-migration-barrier 100",  // Replicas stay with their primaries.
  };
  node.config.insert(node.config.begin(), lines.begin(), lines.end());
  if (!node.requirepass.empty()) node.config.push_back("masterauth " + node.requirepass);
  return node;
}

bool says(const Reply& reply, const std::string& line) {
  return reply.text.find(line) != std::string::npos;
}

}  // namespace

RedisCluster::Node::Node(const ClusterOptions& options, const ReservedPort& bus_port)
    : server(node_options(options, bus_port.number())),
      id(server.must({"CLUSTER", "MYID"}).text),
      bus(bus_port.number()) {}

RedisCluster::RedisCluster(const ClusterOptions& options) : options_(options) {
  const std::size_t primaries = options.primaries;
  const std::size_t all = primaries * (1 + options.replicas);
  for (std::size_t i = 0; i < all; ++i) {
    bus_ports_.push_back(std::make_unique<ReservedPort>());
    nodes_.push_back(std::make_unique<Node>(options_, *bus_ports_.back()));
    // Different epochs from the start: otherwise the nodes would have to settle who wins.
    cluster(i, {"SET-CONFIG-EPOCH", std::to_string(i + 1)});
  }
  for (std::size_t i = 0; i < primaries; ++i) {
    const auto first = static_cast<std::size_t>(kSlots) * i / primaries;
    const auto next = static_cast<std::size_t>(kSlots) * (i + 1) / primaries;
    cluster(i, {"ADDSLOTSRANGE", std::to_string(first), std::to_string(next - 1)});
  }
  introduce_all();
  for (std::size_t i = primaries; i < all; ++i) {
    cluster(i, {"REPLICATE", id((i - primaries) % primaries)});
  }
  await_whole();
  for (std::size_t i = 0; i < primaries; ++i) await_replicas(i);
}

void RedisCluster::introduce_all() {
  for (std::size_t i = 0; i < size(); ++i) {
    for (std::size_t other = 0; other < i; ++other) {
      cluster(i, {"MEET", "127.0.0.1", std::to_string(node(other).port()),
                  std::to_string(nodes_[other]->bus)});
    }
  }
  await("the nodes know each other", [this] {
    for (std::size_t i = 0; i < size(); ++i) {
      const Reply known = cluster(i, {"NODES"});
      for (std::size_t other = 0; other < size(); ++other) {
        if (!says(known, id(other))) return false;
      }
      if (says(known, "handshake")) return false;
    }
    return true;
  });
}

Reply RedisCluster::cluster(std::size_t index, std::vector<std::string> words) {
  words.insert(words.begin(), "CLUSTER");
  return node(index).must(words);
}

void RedisCluster::await(const char* what, const std::function<bool()>& holds) {
  const auto until = std::chrono::steady_clock::now() + 2 * kPatience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() >= until) {
      std::string told;
      for (const auto& each : nodes_) {
        if (!each->server.running() || each->paused) continue;
        told += "\n" + each->server.command({"CLUSTER", "NODES"}).text;
      }
      throw std::runtime_error(std::string("waited in vain: ") + what + told);
    }
    std::this_thread::sleep_for(5ms);
  }
}

std::size_t RedisCluster::replica_of(std::size_t primary, std::size_t number) const {
  if (primary >= primaries() || number >= options_.replicas) {
    throw std::runtime_error("there is no such replica");
  }
  return primaries() * (1 + number) + primary;
}

std::string RedisCluster::hosts() const {
  std::string all;
  for (std::size_t i = 0; i < primaries(); ++i) {
    all += (all.empty() ? "" : ",") +
           ("127.0.0.1:" + std::to_string(nodes_[i]->server.port()));
  }
  return all;
}

std::string RedisCluster::url(const std::string& query) const {
  return "redis+cluster://" + hosts() + (query.empty() ? "" : "?" + query);
}

void RedisCluster::pause(std::size_t index) {
  node(index).pause();
  nodes_.at(index)->paused = true;
}

void RedisCluster::resume(std::size_t index) {
  node(index).resume();
  nodes_.at(index)->paused = false;
}

int RedisCluster::slot_of(const std::string& key) {
  for (std::size_t i = 0; i < size(); ++i) {
    if (answers(i)) return static_cast<int>(cluster(i, {"KEYSLOT", key}).integer);
  }
  throw std::runtime_error("no node runs");
}

std::size_t RedisCluster::with_port(std::int64_t port) const {
  for (std::size_t i = 0; i < size(); ++i) {
    if (nodes_[i]->server.port() == port) return i;
  }
  throw std::runtime_error("the cluster names a foreign node");
}

std::size_t RedisCluster::owner_seen_by(std::size_t index, int slot) {
  for (const Reply& range : cluster(index, {"SLOTS"}).elements) {
    if (range.at(0).integer <= slot && slot <= range.at(1).integer) {
      return with_port(range.at(2).at(1).integer);
    }
  }
  return kNone;
}

std::size_t RedisCluster::owner(int slot) {
  for (std::size_t i = 0; i < size(); ++i) {
    if (!answers(i)) continue;
    const std::size_t found = owner_seen_by(i, slot);
    if (found != kNone) return found;
  }
  throw std::runtime_error("nobody serves the slot");
}

void RedisCluster::await_owner(int slot, std::size_t owner) {
  await("all know the slot's owner", [&] {
    for (std::size_t i = 0; i < size(); ++i) {
      if (!answers(i)) continue;
      if (owner_seen_by(i, slot) != owner) return false;
      if (!says(cluster(i, {"INFO"}), "cluster_state:ok")) return false;
    }
    return true;
  });
}

std::size_t RedisCluster::await_other_owner(int slot, std::size_t than) {
  std::size_t elected = than;
  await("another node serves the slot", [&] {
    for (std::size_t i = 0; i < size(); ++i) {
      if (i == than || !answers(i)) continue;
      elected = owner_seen_by(i, slot);
      return elected != than && elected != kNone;
    }
    return false;
  });
  await_owner(slot, elected);
  return elected;
}

void RedisCluster::await_whole() {
  await("the cluster serves all slots", [this] {
    for (std::size_t i = 0; i < size(); ++i) {
      if (!answers(i)) continue;
      const Reply told = cluster(i, {"INFO"});
      const bool whole = says(told, "cluster_state:ok") &&
                         says(told, "cluster_slots_ok:" + std::to_string(kSlots)) &&
                         says(told, "cluster_known_nodes:" + std::to_string(size()) + "\r") &&
                         says(told, "cluster_size:" + std::to_string(primaries()) + "\r");
      if (!whole) return false;
    }
    return true;
  });
}

void RedisCluster::await_replicas(std::size_t primary) {
  await("the replicas are connected", [&] {
    for (std::size_t i = 0; i < options_.replicas; ++i) {
      const std::string one = node(primary).info("replication", "slave" + std::to_string(i));
      if (one.find("state=online") == std::string::npos) return false;
      if (node(replica_of(primary, i)).info("replication", "master_link_status") != "up") {
        return false;
      }
    }
    if (options_.replicas == 0) return true;
    const std::string wanted = std::to_string(options_.replicas);
    return node(primary).must({"WAIT", wanted, "1000"}).integer >=
           static_cast<std::int64_t>(options_.replicas);
  });
}

void RedisCluster::open_move(int slot, std::size_t to) {
  const std::size_t from = owner(slot);
  cluster(to, {"SETSLOT", std::to_string(slot), "IMPORTING", id(from)});
  cluster(from, {"SETSLOT", std::to_string(slot), "MIGRATING", id(to)});
}

void RedisCluster::move_keys(const std::vector<std::string>& keys, std::size_t from,
                             std::size_t to) {
  if (keys.empty()) return;
  std::vector<std::string> words = {"MIGRATE", "127.0.0.1", std::to_string(node(to).port()), "",
                                    "0", "5000"};
  if (!options_.server.requirepass.empty()) {
    words.insert(words.end(), {"AUTH", options_.server.requirepass});
  }
  words.push_back("KEYS");
  words.insert(words.end(), keys.begin(), keys.end());
  node(from).must(words);
}

void RedisCluster::move_all_keys(int slot, std::size_t from, std::size_t to) {
  const std::string name = std::to_string(slot);
  while (true) {
    const Reply found = cluster(from, {"GETKEYSINSLOT", name, "1"});
    if (found.elements.empty()) return;
    move_keys({found.at(0).text}, from, to);
  }
}

void RedisCluster::close_move(int slot, std::size_t to) {
  const std::string name = std::to_string(slot);
  // The importer first: if it fell silent in between, the source would lose the slot.
  cluster(to, {"SETSLOT", name, "NODE", id(to)});
  for (std::size_t i = 0; i < size(); ++i) {
    if (i == to || !answers(i)) continue;
    if (node(i).info("replication", "role") != "master") continue;  // Hears of it by gossip.
    cluster(i, {"SETSLOT", name, "NODE", id(to)});
  }
  await_owner(slot, to);
}

void RedisCluster::abandon_move(int slot, std::size_t to) {
  const std::string name = std::to_string(slot);
  cluster(to, {"SETSLOT", name, "STABLE"});
  cluster(owner(slot), {"SETSLOT", name, "STABLE"});
}

void RedisCluster::move_slot(int slot, std::size_t to) {
  const std::size_t from = owner(slot);
  if (from == to) return;
  open_move(slot, to);
  move_all_keys(slot, from, to);
  close_move(slot, to);
}

bool RedisCluster::roles_are_known_to(std::size_t index) {
  std::string known = cluster(index, {"NODES"}).text;
  known.insert(0, "\n");
  for (std::size_t other = 0; other < size(); ++other) {
    if (!answers(other)) continue;
    const auto at = known.find("\n" + id(other));
    if (at == std::string::npos) return false;
    const std::string line = known.substr(at, known.find('\n', at + 1) - at);
    if (line.find(node(other).info("replication", "role")) == std::string::npos) return false;
  }
  return true;
}

// A node votes only for one that it knows to be a replica, and for an epoch that is not below its
// own. One that is refused asks again only after four times node_timeout.
void RedisCluster::await_voters() {
  await("the nodes agree on roles and epoch", [this] {
    std::set<std::string> epochs;
    for (std::size_t i = 0; i < size(); ++i) {
      if (!answers(i)) continue;
      if (!roles_are_known_to(i)) return false;
      const std::string told = cluster(i, {"INFO"}).text;
      const auto at = told.find("cluster_current_epoch:");
      epochs.insert(told.substr(at, told.find('\r', at) - at));
    }
    return epochs.size() == 1;
  });
}

void RedisCluster::hand_over(std::size_t replica) {
  await_voters();
  cluster(replica, {"FAILOVER"});
  await("the replica serves", [&] {
    return node(replica).info("replication", "role") == "master";
  });
  await_whole();
}

void RedisCluster::take_over(std::size_t replica) {
  cluster(replica, {"FAILOVER", "TAKEOVER"});
  await("the replica serves", [&] {
    return node(replica).info("replication", "role") == "master" &&
           says(cluster(replica, {"INFO"}), "cluster_state:ok");
  });
}

}  // namespace holdfast::support
