#include "lab/scenario/checks.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <system_error>

#include "src/cli/text/text.h"

#include "lab/scenario/fields.h"
#include "lab/scenario/placeholders.h"
#include "lab/scenario/topology_files.h"
#include "lab/scenario/words.h"

namespace holdfast::lab {
namespace {

constexpr std::size_t kLongestName = 64;
constexpr std::size_t kLongestOfTopology = 31;  // A cell has two such names and a dash.
constexpr char kNameCharacters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
constexpr std::string_view kOfLinks =
    "partition blackhole loss delay hold duplicate reorder drop-replies split reset";
constexpr std::string_view kOfServers = "server-pause restart restart-empty isolate move";
constexpr std::string_view kOfMembers = "partition server-pause restart isolate";

bool is_file_name(const std::string& name) {
  return !name.empty() && name.size() <= kLongestName && name.front() != '.' &&
         name.find_first_not_of(kNameCharacters) == name.npos;
}

bool is_among(const std::string& word, std::string_view words) {
  const std::vector<std::string> all = split_words(words);
  return std::find(all.begin(), all.end(), word) != all.end();
}

std::string called(const Topology* topology) {
  return topology == nullptr ? "your own store" : "the topology " + cli::in_quotes(topology->name);
}

bool is_number(const std::string& text, std::int64_t most) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  return read.ec == std::errc{} && read.ptr == end && number >= 1 && number <= most;
}

std::int64_t nodes_in(const StoreSpec& store, const Topology* topology) {
  return store.nodes > 0 || topology == nullptr ? store.nodes : topology->usual_nodes();
}

// Rejects features of [store] that the topology lacks.
void check_store(const Scenario& scenario, const Topology* topology, const Complain& complain) {
  const StoreSpec& store = scenario.store;
  const ServerSpec* server = topology != nullptr && topology->server ? &*topology->server : nullptr;
  const auto needs = [&](bool asked, bool has, const std::string& key, const std::string& what) {
    if (!asked || has) return;
    complain(key + " in [store] needs " + what + ", which " + called(topology) + " lacks");
  };
  needs(store.proxy, server != nullptr, "proxy", "servers of the lab's own");
  if (store.proxy && topology != nullptr && topology->direct) {
    complain("proxy in [store] has no effect on " + called(topology) +
             ", whose servers tell clients each other's addresses: leave it out");
  }
  needs(store.replica, topology != nullptr && topology->replica, "replica", "a [replica]");
  needs(store.clock, topology != nullptr && topology->wall_clock != "none", "clock",
        "a wall_clock");
  needs(store.server_clock, server != nullptr, "server_clock", "servers of the lab's own");
  if (store.server_clock && topology != nullptr && !topology->fixed_clock.empty()) {
    complain("server_clock in [store]: that of " + called(topology) +
             " cannot be made to jump: " + topology->fixed_clock);
  }
  if (store.clock && store.server_clock) {
    complain("clock and server_clock in [store] do not go together: say one of them");
  }
  needs(store.durable,
        server != nullptr && (server->keeps_everything() || !server->durable.empty()), "durable",
        "durable in [server]");
  needs(store.disk_mb > 0, topology != nullptr && topology->disk, "disk_mb", "disk = true");
  needs(store.network, topology != nullptr && topology->can_be_isolated(nodes_in(store, topology)),
        "network", "several nodes, and {host} in peer");
  if (store.kind == "url" && store.url.empty()) {
    complain("url in [store] is missing: url = \"scheme://host:port\"");
  }
  if (store.replica && server != nullptr &&
      (store.nodes > 0 ? store.nodes : topology->usual_nodes()) > 1) {
    complain("replica in [store] is for a store of one node");
  }
  if (store.nodes == 0) return;
  needs(true, server != nullptr, "nodes", "servers of the lab's own");
  if (server == nullptr) return;
  const std::vector<std::int64_t>& sizes = server->nodes;
  if (sizes.empty() ? store.nodes != 1
                    : std::find(sizes.begin(), sizes.end(), store.nodes) == sizes.end()) {
    complain("nodes in [store] is " + std::to_string(store.nodes) +
             ", which is not among nodes in " + "[server] of " + called(topology));
  }
}

void check_nemesis(const NemesisSpec& nemesis, const StoreSpec& store, const Topology* topology,
                   const Complain& complain) {
  const std::string who = "the nemesis " + nemesis.kind + " needs ";
  const bool has_server = topology != nullptr && topology->server;
  const std::string none = ", which " + called(topology) + " lacks";
  if (nemesis.kind.empty()) {
    complain("kind in [[nemesis]] is missing; it may be: " +
             listed(split_words(kNemesisKinds.words)));
  }
  const bool of_links = is_among(nemesis.kind, kOfLinks);
  if (of_links && has_server && topology->direct) {
    if (nemesis.kind != "partition") {
      complain(who + "a proxy, and no proxy can stand before the servers of " + called(topology));
    } else if (!store.network) {
      complain(who + "network = true in [store] of " + called(topology));
    } else if (nemesis.direction != "both") {
      complain("direction in [[nemesis]] must be both on " + called(topology));
    }
  } else if (of_links && !store.proxy) {
    complain(who + "proxy = true in [store]" +
             (has_server ? "" : ", which needs servers of the lab's own" + none));
  }
  if (is_among(nemesis.kind, kOfServers) && !has_server) {
    complain(who + "a server of the lab's own" + none);
  }
  if (nemesis.kind == "restart" && has_server && !topology->can_restart(store.durable)) {
    complain(who +
             "a server that keeps what it knew: durable = true in [store], or save or keeps " +
             "in [server] of " + called(topology));
  }
  if (nemesis.kind == "failover" && !(store.replica && store.proxy)) {
    complain(who + "replica = true and proxy = true in [store]" +
             (topology != nullptr && topology->replica ? "" : ", which needs a [replica]" + none));
  }
  if (nemesis.kind == "clock-jump" && !store.clock && !store.server_clock) {
    complain(who + "clock = true in [store]");
  }
  if (nemesis.kind == "isolate" && !store.network) complain(who + "network = true in [store]");
  if (nemesis.kind != "isolate" && !of_links && nemesis.from != "all") {
    complain("from in [[nemesis]] is for isolate, and for faults of a client's link");
  }
  if (nemesis.kind == "move" && has_server && topology->server->move.empty()) {
    complain(who + "move in [server]" + none);
  }
  const bool fills = store.disk_mb > 0 || (topology != nullptr && topology->can_be_filled());
  if (nemesis.kind == "disk-full" && !fills) {
    complain(who + "disk_mb in [store], or fill in [server]");
  }
}

// No proxy stands between servers and members.
void check_members_link(const NemesisSpec& nemesis, const StoreSpec& store,
                        const Complain& complain) {
  if (!store.network) {
    complain("the nemesis partition of a member needs network = true in [store]");
  }
  if (nemesis.direction != "both") {
    complain("direction in [[nemesis]] must be both where a member is the target");
  }
}

void check_target(const NemesisSpec& nemesis, const Scenario& scenario, const Topology* topology,
                  const Complain& complain) {
  const StoreSpec& store = scenario.store;
  const bool of_servers = is_among(nemesis.kind, kOfServers) && topology != nullptr;
  const std::int64_t most = of_servers ? nodes_in(store, topology) : scenario.clients.processes;
  const std::string& target = nemesis.target;
  const bool of_links = is_among(nemesis.kind, kOfLinks) && topology != nullptr;
  const bool one_node = of_links && nemesis.from == "one";
  const bool leads = (of_servers || of_links) && !one_node && topology->server &&
                     !topology->server->leader.empty();
  if (target == "any" || target == "all" || (target == "leader" && leads)) return;
  const bool follows = leads && nodes_in(store, topology) > 1;
  if (target == "follower" && follows) return;
  const bool members = is_among(nemesis.kind, kOfMembers) && nemesis.from == "all" &&
                       topology != nullptr && topology->member;
  if (members && (target == "member-leader" || target == "member-follower")) {
    if (of_links) check_members_link(nemesis, store, complain);
    return;
  }
  if (is_number(target, most)) return;
  constexpr std::string_view kNode = "node ";
  const std::int64_t nodes = nodes_in(store, topology);
  const bool node = of_links && !one_node;
  if (node && target.starts_with(kNode) &&
      (target == "node any" || is_number(target.substr(kNode.size()), nodes))) {
    return;
  }
  complain("target in [[nemesis]] is " + cli::in_quotes(cli::shortened(target)) +
           "; it may be: any, all, " + (leads ? "leader, " : "") + (follows ? "follower, " : "") +
           (members ? "member-leader, member-follower, " : "") +
           (node ? "node any, node 1 to node " + std::to_string(nodes) + ", " : "") +
           "or a number from 1 to " + std::to_string(most));
}

// All strikes of a run are planned and numbered in advance, so their count is limited.
void check_strikes(const Scenario& scenario, const Complain& complain) {
  constexpr std::int64_t kMost = 200'000;
  std::int64_t strikes = 0;
  for (const NemesisSpec& nemesis : scenario.nemeses) {
    if (!nemesis.at.empty()) continue;
    std::int64_t times =
        (scenario.duration - scenario.calm) / std::max<milliseconds>(nemesis.every, 1ms) + 1;
    if (nemesis.times > 0) times = std::min(times, nemesis.times);
    strikes += times * (nemesis.target == "all" ? scenario.clients.processes : 1);
  }
  if (strikes <= kMost) return;
  complain("the nemeses in [[nemesis]] would strike " + std::to_string(strikes) +
           " times, and a run has at most " + std::to_string(kMost) +
           " strikes: set a longer every, a smaller times or a shorter duration");
}

void check_on(const Scenario& scenario, const Topology* topology, const Complain& complain) {
  check_store(scenario, topology, complain);
  if (topology != nullptr && topology->one_process && scenario.clients.processes != 1) {
    complain("every process of " + called(topology) +
             " has a store of its own: processes = 1 in [clients], and owners in [[workload]]");
  }
  if (scenario.clients.subject.empty()) complain("subject in [clients] is empty");
  if (scenario.calm >= scenario.duration) complain("calm must be shorter than duration");
  check_strikes(scenario, complain);
  for (const WorkloadSpec& work : scenario.workloads) {
    if ((work.kind == "nested" || work.kind == "multi") && work.depth > work.locks) {
      complain("depth in [[workload]] must not be more than its locks");
    }
  }
  for (const NemesisSpec& nemesis : scenario.nemeses) {
    check_nemesis(nemesis, scenario.store, topology, complain);
    check_target(nemesis, scenario, topology, complain);
  }
}

// Whether the server learns its port.
bool port_is_told(const ServerSpec& server) {
  std::vector<std::string> texts = server.command;
  for (const auto& [name, text] : server.files) texts.push_back(text);
  return std::any_of(texts.begin(), texts.end(), [](const std::string& text) {
    const std::vector<std::string> found = placeholders(text);
    return std::find(found.begin(), found.end(), "port") != found.end();
  });
}

void check_server(const Topology& topology, const ServerSpec& server, const Complain& complain) {
  if (server.command.empty()) complain("command in [server] is missing: [\"program\", \"{port}\"]");
  if (!port_is_told(server)) {
    complain(
        "the server is not told where to listen: write {port} in command or in [server.files]");
  }
  for (const auto& [name, text] : server.files) {
    if (!is_file_name(name)) {
      complain(cli::in_quotes(cli::shortened(name)) + " in [server.files] is not a file name");
    }
  }
  const std::vector<std::string> told = placeholders(topology.url);
  if (std::none_of(told.begin(), told.end(),
                   [](const std::string& name) { return name == "port" || name == "hosts"; })) {
    complain("url does not say where the server is: write {port}, or {hosts} for all nodes");
  }
  const bool one = server.nodes.empty() || server.nodes == std::vector<std::int64_t>{1};
  if (!one && server.peer.empty()) {
    complain("peer in [server] is missing: say how each node is told of the others");
  }
  const std::set<std::string> names(server.ports.begin(), server.ports.end());
  if (names.size() != server.ports.size()) complain("ports in [server] has a name twice");
}

void check_name(const std::string& name, const Complain& complain) {
  if (name.empty()) return complain("name is missing: name = \"what-this-is\"");
  if (is_file_name(name)) return;
  complain("name may have letters, digits, '-', '_' and '.' (not first), and at most " +
           std::to_string(kLongestName) + " of them");
}

void check_short_name(const std::string& name, const Complain& complain) {
  check_name(name, complain);
  if (name.size() <= kLongestOfTopology) return;
  complain("name must not be longer than " + std::to_string(kLongestOfTopology) + " letters");
}

}  // namespace

std::int64_t nodes_of(const Scenario& scenario) {
  if (scenario.topology == nullptr) return 0;
  return scenario.store.nodes > 0 ? scenario.store.nodes : scenario.topology->usual_nodes();
}

void check_scenario(const Scenario& scenario, const Complain& complain) {
  check_name(scenario.name, complain);
  if (scenario.workloads.empty()) complain("there is no [[workload]]: say what the clients do");
  check_on(scenario, scenario.topology.get(), complain);
  const StoreSpec& store = scenario.store;
  if (store.kind == "none" && scenario.clients.subject == ClientSpec{}.subject) {
    complain("kind = \"none\" in [store] is for a subject that brings its own, which " +
             cli::in_quotes(scenario.clients.subject) + " does not");
  }
  if (store.kind != "url") return;
  const TopologyPointer like = shipped_topology(store.url.substr(0, store.url.find(':')));
  if (like == nullptr || !like->one_process || scenario.clients.processes == 1) return;
  complain("every process has a store of its own at " + cli::in_quotes(like->name + ":") +
           ": processes = 1 in [clients], and owners in [[workload]]");
}

void check_topology(const Topology& topology, const Complain& complain) {
  check_short_name(topology.name, complain);
  if (topology.url.empty()) complain("url is missing: say how clients reach the store");
  if (topology.server) check_server(topology, *topology.server, complain);
  if (topology.direct && !topology.server) complain("direct is for a topology with a [server]");
  if (topology.server && topology.server->move.empty() != topology.server->moved.empty()) {
    complain("move and moved in [server] go together");
  }
  if (topology.server && topology.server->fill.empty() != topology.server->free.empty()) {
    complain("fill and free in [server] go together");
  }
  if (topology.member && !topology.server) complain("[member] needs a [server]");
  if (topology.member && (topology.member->command.empty() || topology.member->leader.empty())) {
    complain("[member] needs command and leader");
  }
  if (topology.replica && !topology.server) complain("[replica] needs a [server]");
  if (topology.replica && (topology.replica->follow.empty() || topology.replica->promote.empty())) {
    complain("[replica] needs follow and promote");
  }
  if (topology.one_process && topology.server) {
    complain("one_process is for a store without a [server]");
  }
  if (topology.wall_clock == "server" && !topology.server) {
    complain("wall_clock is \"server\", but there is no [server]");
  }
  if (!topology.version.empty() && !topology.version_function.empty()) {
    complain("version and version_function do not go together: say one of them");
  }
}

void check_cell(const Cell& cell, const Topology& topology, const Complain& complain) {
  check_short_name(cell.what.name, complain);
  const StoreSpec& store = cell.what.store;
  if (!store.kind.empty() || !store.topology.empty() || !store.url.empty()) {
    complain("kind, topology and url are not for [cell.store]: a cell is run on its own topology");
  }
  check_on(cell.what, &topology, complain);
}

}  // namespace holdfast::lab
