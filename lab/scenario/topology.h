// A kind of store as data: what clients are told, how its servers are started, told of each other,
// stopped and harmed, and what the matrix tries on it besides of what it tries on every store.
//
// docs/guide/lab-reference.md is the manual of the files, lab/topologies has those that come with
// the lab.
// Every field is in fields.h, once.
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

// A program and its arguments; no shell is between.
using Words = std::vector<std::string>;

struct ServerSpec {
  Words command{};  // Becomes the server, and stays in the foreground.
  Words ready{};    // Ends with 0 when clients may come; none: when it accepts a connection.
  milliseconds patience = 20s;        // For that.
  std::vector<std::string> ports{};   // Besides of {port}: names of placeholders.
  std::vector<std::int64_t> nodes{};  // The sizes it may run in, the usual one first; none: 1.
  std::string peer{};                 // Every node is told this of each: {peers} is all of them.
  std::string between_peers = ",";
  Words leader{};                 // Ends with 0 on the node that leads the others.
  std::string framing = "raw";    // How the proxies tell requests apart: raw, resp.
  std::string keeps = "nothing";  // A killed server's memory when it comes back.
  Words durable{};                // More arguments, with which it keeps everything.
  Words save{};                   // After this and a SIGTERM it knows everything, too.
  std::vector<std::pair<std::string, std::string>> files{};  // Written into {folder} before.

  bool keeps_everything() const { return keeps == "everything"; }
};

// A second server that follows the first and can take its place.
struct ReplicaSpec {
  Words follow{};
  Words caught_up{};  // Ends with 0 when it has; none: at once.
  Words promote{};
};

// A cell of the matrix that this store alone has.
struct Cell {
  std::string work = "mixed";  // Where there is no [[cell.workload]]: mixed, believers, keepers.
  Scenario what{};
};

struct Topology {
  std::string name{};
  std::string about{};
  std::string url{};
  Words version{};                  // A command; its output's first dotted number is the version.
  std::string version_function{};   // Or a C function of a linked library: const char* f(void).
  std::string wall_clock = "none";  // The clock that the store reads: none, server, clients.
  std::string fixed_clock{};        // Why that of its servers cannot be made to jump; none: it can.
  bool one_process = false;         // Every process has a store of its own, which dies with it.
  bool disk = false;                // Its files are in {folder}, which may be a disk of its own.
  // How long the store may go on refusing others after a lease that nobody gave back has ended for
  // its client: where it lives by a session, which the servers end later.
  milliseconds lingers{0};
  std::optional<ServerSpec> server{};
  std::optional<ReplicaSpec> replica{};
  std::vector<Cell> cells{};
  std::string text{};  // The file, as it was read.

  bool has_proxies() const { return server.has_value(); }
  bool can_restart(bool durable) const {
    return server && (server->keeps_everything() || durable || !server->save.empty());
  }
  // Its nodes tell each other where they are, so they may be on hosts of their own.
  bool can_be_isolated(std::int64_t nodes_of_it) const {
    return server && nodes_of_it > 1 && server->peer.find("{host}") != std::string::npos;
  }
  std::int64_t usual_nodes() const {
    return !server ? 0 : server->nodes.empty() ? 1 : server->nodes.front();
  }
};

// How many servers the scenario's store has, without a replica; 0: none of its own.
std::int64_t nodes_of(const Scenario& scenario);

}  // namespace holdfast::lab
