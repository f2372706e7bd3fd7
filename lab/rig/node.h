// One server of a store, started, told of its peers, stopped and killed as its topology says.
//
// Guarantee: its ports are its own as long as the object lives, over restarts; the process ends
// with the object, or with this program, however that ends.
// Not guaranteed: that it dies with its folder's file system, or that a command of the topology
// means what it says.
//
// Thread-safety: one thread at a time.
// Ownership: the topology must outlive it.
// Blocking: for the topology's patience; end() for support::kPatience, twice. `waiting` is called
// meanwhile.
// Errors: NodeFailed, with the end of what the server or the command has said; std::runtime_error.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/loopback.h"

#include "lab/scenario/placeholders.h"
#include "lab/scenario/topology.h"

namespace holdfast::lab {

struct NodeSite {
  std::int64_t number = 1;  // Its number, out of:
  std::int64_t nodes = 1;
  std::string folder{};  // Its own, for its data.
  std::string log{};     // A file beside it.
  std::string host = "127.0.0.1";
  int network = -1;  // As Command::network.
  bool durable = false;
  std::vector<std::string> environment{};
  std::function<void()> waiting{};  // Called all the time while something is awaited; may throw.
};

// A server did not do what its topology says: it ended by itself, or does not come back.
class NodeFailed : public std::runtime_error {
 public:
  NodeFailed(const std::string& what, std::string node, std::string log)
      : std::runtime_error(what), node_(std::move(node)), log_(std::move(log)) {}

  const std::string& node() const { return node_; }  // "node-1"
  const std::string& log() const { return log_; }    // The path of what it said.

 private:
  std::string node_;
  std::string log_;
};

class Node {
 public:
  Node(const Topology& topology, NodeSite site);

  const std::string& host() const { return site_.host; }
  std::uint16_t port() const { return ports_.at("port").number(); }
  // The text about this node that every node gets.
  std::string as_peer() const { return filled(spec().peer, values_); }
  void introduce(const std::string& peers) { values_["peers"] = peers; }

  void launch();
  void await_ready();
  void start() {
    launch();
    await_ready();
  }
  bool running() { return process_ != nullptr && process_->running(); }
  // Throws when it has ended and nobody has ended it.
  void look_after();
  // Neither ended nor stopped.
  bool works() { return running() && !paused_; }
  void pause();
  void resume();
  void kill();
  // In good order: what it knows is on its disk.
  void end();
  // Its data are gone. It must not run.
  void forget();

  // Runs it to its end, which must be 0.
  void run(const Words& command, const Values& more = {}) const;
  bool says_yes(const Words& command) const;
  // Again and again, until it ends with 0, but not longer than the topology's patience.
  void await(const Words& command) const;

 private:
  const ServerSpec& spec() const { return *topology_.server; }
  bool is_ready(std::string& why_not, milliseconds limit) const;
  void run_within(milliseconds limit, const Words& command, const Values& more = {}) const;
  void write_files() const;
  [[noreturn]] void fail(const std::string& what) const;

  const Topology& topology_;
  const NodeSite site_;
  std::map<std::string, support::ReservedPort> ports_;
  Values values_;
  std::unique_ptr<support::ChildProcess> process_;
  bool paused_ = false;
  bool wanted_ = false;  // It is to run.
};

}  // namespace holdfast::lab
