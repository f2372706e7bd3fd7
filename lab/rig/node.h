// One server of a store. Its topology says how it is started, told of its peers, stopped and
// killed.
//
// Guarantee: the ports stay reserved over restarts while the object lives; the process ends with
// the object, or with this program in whatever way that ends.
// Not guaranteed: that the server dies with its folder's file system, or that the topology's
// commands do what they say.
//
// Thread-safety: one thread at a time.
// Ownership: the topology must outlive it.
// Blocking: up to the topology's patience; end() up to twice support::kPatience. `waiting` is
// called meanwhile.
// Errors: NodeFailed, with the end of the server's or the command's output; std::runtime_error.
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

struct NodeSetup {
  bool member = false;      // Runs the topology's [member], not its [server].
  std::int64_t number = 1;  // Its number, out of:
  std::int64_t nodes = 1;
  std::string folder{};  // Its own, for its data.
  std::string log{};     // A file beside it.
  std::string host = "127.0.0.1";
  int network = -1;  // As Command::network.
  bool durable = false;
  std::vector<std::string> environment{};
  std::function<void()> waiting{};  // Called again and again during a wait; may throw.
};

// A server failed: it ended by itself, or does not come back.
class NodeFailed : public std::runtime_error {
 public:
  NodeFailed(const std::string& what, std::string node, std::string log)
      : std::runtime_error(what), node_(std::move(node)), log_(std::move(log)) {}

  const std::string& node() const { return node_; }  // "node-1"
  const std::string& log() const { return log_; }    // The path of its output.

 private:
  std::string node_;
  std::string log_;
};

class Node {
 public:
  Node(const Topology& topology, NodeSetup setup);

  const std::string& host() const { return setup_.host; }
  std::uint16_t port(const std::string& name = "port") const { return ports_.at(name).number(); }
  // The text about this node that every node gets.
  std::string as_peer() const { return filled(spec().peer, values_); }
  // `members`: their addresses, for servers.
  void introduce(const std::string& peers, const std::string& members) {
    values_["peers"] = peers;
    values_["members"] = members;
  }

  void launch();
  void await_ready();
  void start() {
    launch();
    await_ready();
  }
  bool running() { return process_ != nullptr && process_->running(); }
  // Throws if the server has ended by itself.
  void look_after();
  // Neither ended nor stopped.
  bool works() { return running() && !paused_; }
  void pause();
  void resume();
  void kill();
  // An orderly end: the server's state is on its disk.
  void end();
  // Deletes its data. The server must not be running.
  void forget();

  // Runs the command, which must exit with 0.
  void run(const Words& command, const Values& more = {}) const;
  bool says_yes(const Words& command, const Values& more = {}) const;
  // Repeats the command until it exits with 0, but not longer than the topology's patience.
  void await(const Words& command) const;

 private:
  const ServerSpec& spec() const {
    return setup_.member ? static_cast<const ServerSpec&>(*topology_.member) : *topology_.server;
  }
  bool is_ready(std::string& why_not, milliseconds limit) const;
  void run_within(milliseconds limit, const Words& command, const Values& more = {}) const;
  void write_files() const;
  [[noreturn]] void fail(const std::string& what) const;

  const Topology& topology_;
  const NodeSetup setup_;
  std::map<std::string, support::ReservedPort> ports_;
  Values values_;
  std::unique_ptr<support::ChildProcess> process_;
  bool paused_ = false;
  bool wanted_ = false;  // Whether the server should be running.
};

}  // namespace holdfast::lab
