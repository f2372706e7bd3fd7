// The ground of a run's clients: the store, its servers and the ways to them, as the topology says.
//
// Thread-safety: one thread at a time.
// Ownership: all of it goes with the object; nothing is left on the host. A store of kind `url` is
// the user's, and only its locks are touched.
// Errors: std::runtime_error: the run cannot be done here, and why.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
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
  // `folder` is the run's own. `waiting` is called all the time while a server starts; it may
  // throw.
  Rig(const Scenario& scenario, const std::string& folder, std::function<void()> waiting = {});

  // For the client in this slot (1, 2, ...).
  std::vector<std::string> urls(std::uint32_t slot) const;
  // NAME=value for every client.
  const std::vector<std::string>& client_environment() const { return environment_; }

  // The ways of the client in this slot, one to each node. Empty: there are no proxies.
  using Links = std::vector<std::unique_ptr<support::FaultProxy>>;
  const Links& links(std::uint32_t slot) const { return links_.at(slot - 1); }
  support::ClockShift* clock() { return clock_.get(); }

  // `node`: 1, 2, ...; the one that leads, or the first where none says that it does.
  std::uint32_t leader() const;
  // One that works and does not lead; the one after the leader where none does.
  std::uint32_t follower() const;
  // Throws NodeFailed when one that is to run has ended.
  void look_after();
  void pause_server(std::uint32_t node) { nodes_.at(node - 1)->pause(); }
  void resume_server(std::uint32_t node) { nodes_.at(node - 1)->resume(); }
  // With memory: what it knew when it ended, it knows when it has started.
  void stop_server(std::uint32_t node, bool with_memory);
  // Returns when the store is ready again, unless other nodes do not run.
  void start_server(std::uint32_t node, bool with_memory);
  // The primary is killed with what it had not told its replica, which takes over.
  void cut_replication();
  void fail_over();
  void fill_disk() { disk_->fill(); }
  void free_disk() { disk_->make_room(); }
  // From now on that node hears nothing of the others; all of all.
  void cut_off(std::uint32_t node) { network_->cut_off(node - 1); }
  void reunite() { network_->heal(); }

  // For people: "etcd", "3.4.23"; of a store of the user's the scheme.
  const std::string& store() const { return store_; }
  const std::string& version() const { return version_; }

 private:
  void start(const Topology& topology);
  void start_servers(const Topology& topology);
  void start_replica(const Topology& topology);
  std::unique_ptr<Node> make_node(std::int64_t number) const;
  std::string url_through(const std::string& hosts, std::uint16_t first) const;

  const Scenario& scenario_;
  const std::string folder_;
  const std::function<void()> waiting_;
  std::string url_;  // Where there are no servers of the lab's own.
  std::string store_;
  std::string version_;
  std::vector<std::string> environment_;
  std::unique_ptr<support::SmallDisk> disk_;
  std::unique_ptr<support::ClockShift> clock_;
  std::unique_ptr<support::ServerNetwork> network_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::unique_ptr<Node> replica_;
  std::unique_ptr<support::FaultProxy> replication_;
  std::vector<Links> links_;  // By slot, from 1 on.
};

}  // namespace holdfast::lab
