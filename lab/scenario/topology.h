// A kind of store as data: the URL for clients, how its servers are started, told of each other,
// stopped and harmed, and the matrix' additional cells for it.
//
// docs/guide/lab-reference.md is the manual of the files, and lab/topologies has those of the lab.
// fields.h lists every field once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lab/scenario/scenario.h"

namespace holdfast::lab {

// A program and its arguments, run without a shell.
using Words = std::vector<std::string>;

struct ServerSpec {
  Words command{};  // Becomes the server, and stays in the foreground.
  Words ready{};    // Exits with 0 once clients may come. Without it: once it accepts a connection.
  milliseconds patience = 20s;        // For that.
  std::vector<std::string> ports{};   // Names of placeholders for further ports, beside {port}.
  std::vector<std::int64_t> nodes{};  // Possible numbers of nodes, the usual one first; empty: 1.
  std::string peer{};                 // The text about each node; {peers} is all of them.
  std::string between_peers = ",";
  Words leader{};                 // Exits with 0 on the leading node.
  std::int64_t shards = 1;        // Parts of the locks, each with a leader of its own.
  std::string framing = "raw";    // How the proxies tell requests apart: raw, resp.
  std::string keeps = "nothing";  // A killed server's memory when it comes back.
  Words durable{};                // Further arguments, with which it keeps everything.
  Words save{};                   // After this and a SIGTERM it keeps everything, too.
  Words move{};                   // Begins to move some of this node's locks to another node.
  Words moved{};                  // Ends what `move` began.
  Words fill{};  // Takes all room that the store has for data, where this is not its disk.
  Words free{};  // Ends what `fill` did.
  std::vector<std::pair<std::string, std::string>> files{};  // Written to {folder} first.

  bool keeps_everything() const { return keeps == "everything"; }
};

// A second program of each node, such as a member of the etcd that has the lock servers' journal. A
// fault of the node's server hits it, too. Where servers have hosts of their own, so has it.
struct MemberSpec : ServerSpec {};

// A second server that follows the first and can take its place.
struct ReplicaSpec {
  Words follow{};
  Words caught_up{};  // Exits with 0 once it has; without it: at once.
  Words promote{};
};

// A cell of the matrix that only this store has.
struct Cell {
  std::string work = "mixed";  // Without [[cell.workload]]: mixed, believers, keepers.
  Scenario what{};
};

struct Topology {
  std::string name{};
  std::string about{};
  std::string url{};
  Words version{};                  // A command; its output's first dotted number is the version.
  std::string version_function{};   // Or a C function of a linked library: const char* f(void).
  std::string wall_clock = "none";  // The clock that the store reads: none, server, clients.
  std::string fixed_clock{};        // Why the servers' clock cannot jump; empty if it can.
  bool fenced = true;               // false: tokens need not grow, so their order is not judged.
  bool exclusive_only = false;      // No readers, permits or values: work with them is left out.
  bool direct = false;  // Servers tell clients each other's addresses, so no proxy stands between.
  // The servers replace a lost leader themselves, and the new one may lack changes. So a fault of a
  // server lasts until they agree again, and begins a new incarnation.
  bool promotes = false;
  bool one_process = false;  // Every process has a store of its own, which dies with it.
  bool disk = false;         // Its files are in {folder}, which may be a disk of its own.
  // How long the store may still refuse others after the client counts an unreleased lease as
  // ended: with sessions, the servers end them later.
  milliseconds lingers{0};
  // A server that comes back gives every lease its whole length again, and may have forgotten a
  // release of the last moment. So it may refuse others for as long.
  bool extends = false;
  std::optional<ServerSpec> server{};
  std::optional<MemberSpec> member{};
  std::optional<ReplicaSpec> replica{};
  std::vector<Cell> cells{};
  std::string text{};  // The file, as it was read.

  bool has_proxies() const { return server.has_value() && !direct; }
  bool can_be_filled() const { return server && !server->fill.empty(); }
  bool can_restart(bool durable) const {
    return server && (server->keeps_everything() || durable || !server->save.empty());
  }
  // The nodes tell each other their addresses, so they may be on hosts of their own.
  bool can_be_isolated(std::int64_t nodes_of_it) const {
    const auto tells_host = [](const ServerSpec& spec) {
      return spec.peer.find("{host}") != std::string::npos;
    };
    return server && nodes_of_it > 1 && tells_host(*server) && (!member || tells_host(*member));
  }
  std::int64_t usual_nodes() const {
    return !server ? 0 : server->nodes.empty() ? 1 : server->nodes.front();
  }
};

// The number of servers of the scenario's store, without a replica; 0 if the lab starts none.
std::int64_t nodes_of(const Scenario& scenario);

}  // namespace holdfast::lab
