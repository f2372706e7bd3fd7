#include "lab/rig/rig.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "lab/rig/commands.h"

namespace holdfast::lab {
namespace {

using support::FaultProxy;
using support::Framing;

std::vector<std::string> clock_environment(const support::ClockShift& clock) {
  return {"LD_PRELOAD=" + support::clock_shim_library(),
          support::clock_shim_variable(clock.path())};
}

// The next one that works; the next one if there is none.
std::uint32_t one_after(std::uint32_t first, const std::vector<std::unique_ptr<Node>>& nodes) {
  const auto all = static_cast<std::uint32_t>(nodes.size());
  for (std::uint32_t i = 0; i + 1 < all; ++i) {
    const std::uint32_t node = (first + i) % all + 1;
    if (nodes[node - 1]->works()) return node;
  }
  return first % all + 1;
}

}  // namespace

Rig::Rig(const Scenario& scenario, const std::string& folder, std::function<void()> waiting,
         std::vector<std::uint32_t> shards)
    : scenario_(scenario),
      folder_(folder),
      waiting_(std::move(waiting)),
      shards_(std::move(shards)) {
  if (scenario.topology != nullptr) {
    start(*scenario.topology);
  } else {
    url_ = scenario.store.url;
    store_ = url_.substr(0, url_.find(':'));
  }
}

void Rig::start(const Topology& topology) {
  find_programs(topology);
  store_ = topology.name;
  version_ = version_of(topology);
  const std::string place = folder_ + "/store";
  std::filesystem::create_directory(place);
  if (scenario_.store.disk_mb > 0) {
    disk_ = std::make_unique<support::SmallDisk>(place, scenario_.store.disk_mb);
  }
  const StoreSpec& store = scenario_.store;
  if (store.clock || store.server_clock) clock_ = std::make_unique<support::ClockShift>();
  if (store.clock && topology.wall_clock == "clients") environment_ = clock_environment(*clock_);
  if (topology.server) {
    start_servers(topology);
  } else {
    url_ = filled(topology.url, {{"folder", place}});
  }
}

std::unique_ptr<Node> Rig::make_node(std::int64_t number, bool member) const {
  const std::string name = (member ? "member-" : "node-") + std::to_string(number);
  NodeSetup setup{.member = member,
                  .number = number,
                  .nodes = nodes_of(scenario_),
                  .folder = folder_ + "/store/" + name,
                  .log = folder_ + "/" + name + ".log",
                  .durable = scenario_.store.durable,
                  .waiting = waiting_};
  if (network_ != nullptr) {
    const std::int64_t before = number - 1 + (member ? nodes_of(scenario_) : 0);
    setup.host = network_->address(static_cast<std::size_t>(before));
    setup.network = network_->handle(static_cast<std::size_t>(before));
  }
  const StoreSpec& store = scenario_.store;
  const bool reads_its_own = scenario_.topology->wall_clock == "server";
  // The members' clocks do not jump: etcd asks the kernel, past all that is preloaded.
  if (!member && (store.server_clock || (store.clock && reads_its_own))) {
    setup.environment = clock_environment(*clock_);
  }
  return std::make_unique<Node>(*scenario_.topology, std::move(setup));
}

void Rig::launch_members(const Topology& topology) {
  std::string peers;
  for (std::int64_t number = 1; number <= nodes_of(scenario_); ++number) {
    members_.push_back(make_node(number, /*member=*/true));
    peers += (peers.empty() ? "" : topology.member->between_peers) + members_.back()->as_peer();
  }
  for (const auto& member : members_) {
    member->introduce(peers, "");
    member->launch();
  }
}

void Rig::start_servers(const Topology& topology) {
  if (scenario_.store.network) make_network();
  if (topology.member) launch_members(topology);
  std::string members;
  for (const auto& each : members_) {
    members += (members.empty() ? "" : ",") + each->host() + ":" + std::to_string(each->port());
  }
  std::string peers;
  for (std::int64_t number = 1; number <= nodes_of(scenario_); ++number) {
    nodes_.push_back(make_node(number));
    peers += (peers.empty() ? "" : topology.server->between_peers) + nodes_.back()->as_peer();
  }
  // No node of a cluster is ready before a majority runs.
  for (const auto& node : nodes_) {
    node->introduce(peers, members);
    node->launch();
  }
  for (Node* const each : all_nodes()) each->await_ready();
  if (scenario_.store.replica) start_replica(topology);
  const Framing framing = topology.server->framing == "resp" ? Framing::kResp : Framing::kRaw;
  for (std::int64_t i = 0; scenario_.store.proxy && i < scenario_.clients.processes; ++i) {
    Links& links = links_.emplace_back();
    for (const auto& node : nodes_) {
      links.push_back(std::make_unique<FaultProxy>(support::ProxyOptions{
          .server_port = node->port(), .server_host = node->host(), .framing = framing}));
    }
  }
}

// Where no proxies stand between, each client has a host of its own.
void Rig::make_network() {
  if (const auto why_not = support::ServerNetwork::unavailable()) {
    throw std::runtime_error("network in [store] cannot be had here: " + *why_not);
  }
  const std::int64_t clients = scenario_.topology->direct ? scenario_.clients.processes : 0;
  const std::int64_t servers = nodes_of(scenario_) * (scenario_.topology->member ? 2 : 1);
  network_ = std::make_unique<support::ServerNetwork>(static_cast<std::size_t>(servers),
                                                      static_cast<std::size_t>(clients));
}

int Rig::network_of_client(std::uint32_t slot) const {
  const bool has_own = network_ != nullptr && scenario_.topology->direct;
  return has_own ? network_->handle(host_of_client(slot)) : -1;
}

void Rig::start_replica(const Topology& topology) {
  const ReplicaSpec& spec = *topology.replica;
  replica_ = make_node(nodes_of(scenario_) + 1);
  replica_->start();
  replication_ = std::make_unique<FaultProxy>(
      support::ProxyOptions{.server_port = nodes_.front()->port(), .framing = Framing::kRaw});
  replica_->run(spec.follow, {{"primary_port", std::to_string(replication_->port())}});
  if (!spec.caught_up.empty()) replica_->await(spec.caught_up);
}

std::string Rig::url_through(const std::string& hosts, std::uint16_t first) const {
  Values values{{"port", std::to_string(first)}, {"hosts", hosts}, {"folder", folder_ + "/store"}};
  std::string& numbers = values["numbers"];
  for (std::size_t node = 1; node <= nodes_.size(); ++node) {
    numbers += (node > 1 ? "," : "") + std::to_string(node);
  }
  for (const std::string& name : scenario_.topology->server->ports) {
    values[name] = std::to_string(nodes_.front()->port(name));
  }
  return filled(scenario_.topology->url, values);
}

std::vector<std::string> Rig::urls(std::uint32_t slot) const {
  std::string hosts;
  std::uint16_t first = 0;
  const auto add = [&](const std::string& host, std::uint16_t port) {
    if (first == 0) first = port;
    hosts += (hosts.empty() ? "" : ",") + host + ":" + std::to_string(port);
  };
  if (slot > 0 && slot <= links_.size()) {
    for (const auto& link : links(slot)) add("127.0.0.1", link->port());
  } else {
    for (const auto& node : nodes_) add(node->host(), node->port());
  }
  std::string url = first == 0 ? url_ : url_through(hosts, first);
  if (url.empty()) return {};
  const std::string& options = scenario_.store.options;
  if (!options.empty()) url += (url.find('?') == url.npos ? "?" : "&") + options;
  return {url};
}

std::uint32_t Rig::leader() {
  const Words& question = scenario_.topology->server->leader;
  const std::uint32_t shard = shards_.empty() ? 0 : shards_[asked_++ % shards_.size()];
  const Values asked{{"shard", std::to_string(shard)}};
  for (std::uint32_t node = 1; node <= nodes_.size(); ++node) {
    // A stopped node would not answer.
    if (nodes_[node - 1]->works() && nodes_[node - 1]->says_yes(question, asked)) return node;
  }
  return 1;
}

std::uint32_t Rig::follower() { return one_after(leader(), nodes_); }

std::uint32_t Rig::leading_member() const {
  const Words& question = scenario_.topology->member->leader;
  for (std::uint32_t node = 1; node <= members_.size(); ++node) {
    if (members_[node - 1]->works() && members_[node - 1]->says_yes(question)) return node;
  }
  return 1;
}

std::uint32_t Rig::following_member() const { return one_after(leading_member(), members_); }

std::vector<Node*> Rig::all_nodes() const {
  std::vector<Node*> all;
  for (const auto& member : members_) all.push_back(member.get());
  for (const auto& node : nodes_) all.push_back(node.get());
  return all;
}

void Rig::look_after() {
  for (Node* const each : all_nodes()) each->look_after();
  if (replica_ != nullptr) replica_->look_after();
}

void Rig::pause_server(std::uint32_t node) {
  nodes_.at(node - 1)->pause();
  if (!members_.empty()) pause_member(node);
}

void Rig::resume_server(std::uint32_t node) {
  if (!members_.empty()) resume_member(node);
  nodes_.at(node - 1)->resume();
}

void Rig::stop_server(std::uint32_t node, bool with_memory) {
  Node& server = *nodes_.at(node - 1);
  const bool on_disk = scenario_.store.durable || scenario_.topology->server->keeps_everything();
  if (!with_memory || on_disk) {
    server.kill();
  } else {
    server.end();
  }
  if (!members_.empty()) kill_member(node);
}

void Rig::start_server(std::uint32_t node, bool with_memory) {
  Node& server = *nodes_.at(node - 1);
  if (!with_memory) server.forget();
  if (!members_.empty()) {
    Node& member = *members_.at(node - 1);
    if (!with_memory) member.forget();
    member.launch();
  }
  server.launch();
  await_ready();
}

void Rig::start_member(std::uint32_t node) {
  members_.at(node - 1)->launch();
  await_ready();
}

void Rig::await_ready() {
  // No node of a cluster is ready while too many others are missing.
  const std::vector<Node*> all = all_nodes();
  if (!std::all_of(all.begin(), all.end(), [](Node* each) { return each->works(); })) return;
  for (Node* const each : all) each->await_ready();
}

void Rig::cut_all(const Ways& ways) {
  for (const auto& [one, other] : ways) network_->cut(one, other);
}

void Rig::heal_all(const Ways& ways) {
  for (const auto& [one, other] : ways) network_->heal(one, other);
}

Rig::Ways Rig::ways_between(std::uint32_t one, std::uint32_t other) const {
  Ways ways = {{one - 1, other - 1}};
  if (members_.empty()) return ways;
  ways.insert(ways.end(), {{one - 1, host_of_member(other)},
                           {host_of_member(one), other - 1},
                           {host_of_member(one), host_of_member(other)}});
  return ways;
}

Rig::Ways Rig::ways_to_member(std::uint32_t node) const {
  Ways ways;
  for (std::size_t server = 0; server < nodes_.size(); ++server) {
    ways.emplace_back(server, host_of_member(node));
  }
  return ways;
}

void Rig::cut_off(std::uint32_t node) {
  for (std::uint32_t other = next_to(node); other != node; other = next_to(other)) {
    cut_all(ways_between(node, other));
  }
}

void Rig::rejoin(std::uint32_t node) {
  for (std::uint32_t other = next_to(node); other != node; other = next_to(other)) {
    heal_all(ways_between(node, other));
  }
}

void Rig::begin_move(std::uint32_t node) const {
  nodes_.at(node - 1)->run(scenario_.topology->server->move);
}

void Rig::end_move(std::uint32_t node) const {
  nodes_.at(node - 1)->run(scenario_.topology->server->moved);
}

void Rig::fill() {
  if (disk_ != nullptr) return disk_->fill();
  nodes_.front()->run(scenario_.topology->server->fill);
}

void Rig::make_room() {
  if (disk_ != nullptr) return disk_->make_room();
  nodes_.front()->run(scenario_.topology->server->free);
}

void Rig::cut_replication() {
  replication_->add(
      {.kind = support::Fault::Kind::kBlackhole, .direction = support::Direction::kToClient});
}

void Rig::fail_over() {
  nodes_.front()->kill();
  replica_->run(scenario_.topology->replica->promote);
  for (const Links& links : links_) {
    links.front()->retarget(replica_->port());
    links.front()->reset_all();
  }
}

}  // namespace holdfast::lab
