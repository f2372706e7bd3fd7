#include <algorithm>
#include <set>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "lab/scenario/checks.h"
#include "lab/scenario/files.h"
#include "lab/scenario/placeholders.h"
#include "lab/scenario/reader.h"
#include "lab/scenario/shipped_topologies.h"
#include "lab/scenario/topology_files.h"

namespace holdfast::lab {
namespace {

// A visitor that runs after the reader, and complains about unknown placeholders.
class PlaceholderCheck {
 public:
  PlaceholderCheck(const toml::table& table, std::vector<std::string> known, Complaints& complaints)
      : table_(table), known_(std::move(known)), complaints_(complaints) {}

  void operator()(const char* key, const std::string& text, Template) { look_at(key, text); }
  void operator()(const char* key, const Words& words, Template) {
    for (const std::string& word : words) look_at(key, word);
  }
  template <typename Field, typename Rule>
  void operator()(const char*, const Field&, const Rule&) {}

  void look_at(const std::string& key, const std::string& text) {
    for (const std::string& name : placeholders(text)) {
      if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      if (key == "leader" && name == "shard") continue;  // The one whose leader is wanted.
      const std::string near = cli::nearest(name, known_);
      const toml::node* node = table_.get(key);
      complaints_.add(node == nullptr ? static_cast<const toml::node&>(table_) : *node,
                      "{" + cli::shortened(name) + "} in " + key + " is not known; " +
                          (near.empty() ? "there are: " + listed(in_braces())
                                        : "did you mean {" + near + "}?"));
    }
  }

 private:
  std::vector<std::string> in_braces() const {
    std::vector<std::string> names;
    for (const std::string& name : known_) names.push_back("{" + name + "}");
    return names;
  }

  const toml::table& table_;
  const std::vector<std::string> known_;
  Complaints& complaints_;
};

class TopologyReader {
 public:
  TopologyReader(const toml::table& root, Complaints& complaints)
      : root_(root), complaints_(complaints) {}

  Topology read() {
    Reader reader(root_, "", complaints_);
    std::string base;  // add_base() has read it.
    reader("base", base, Any{});
    fields(reader, topology_);
    if (const toml::table* member = reader.table("member")) read_member(*member);
    if (const toml::table* server = reader.table("server")) read_server(*server);
    const bool served = topology_.server.has_value();
    std::vector<std::string> known{"folder"};
    if (served) {
      known.insert(known.end(), {"port", "hosts", "numbers"});
      const auto& ports = topology_.server->ports;
      known.insert(known.end(), ports.begin(), ports.end());
    }
    check_placeholders(root_, topology_, known);
    if (const toml::table* replica = reader.table("replica")) read_replica(*replica);
    const std::vector<const toml::table*> cells = reader.tables("cell");
    reader.finish();
    check_topology(topology_, complain_at(root_));
    for (const toml::table* cell : cells) read_cell(*cell);
    return std::move(topology_);
  }

 private:
  Complain complain_at(const toml::table& table) {
    return [this, &table](const std::string& what) { complaints_.add(table, what); };
  }

  template <typename Spec>
  void check_placeholders(const toml::table& table, Spec& spec, std::vector<std::string> known) {
    PlaceholderCheck check(table, std::move(known), complaints_);
    fields(check, spec);
  }

  std::vector<std::string> known_to_servers() const {
    std::vector<std::string> known = known_to_all();
    known.emplace_back("shards");
    if (topology_.member) known.emplace_back("members");
    const std::vector<std::string>& ports = topology_.server->ports;
    known.insert(known.end(), ports.begin(), ports.end());
    return known;
  }

  static std::vector<std::string> known_to_all() {
    return {"port", "host", "folder", "node", "nodes", "peers"};
  }

  static void check_ports(const ServerSpec& program, const toml::table& table, Reader& reader) {
    constexpr std::string_view kTaken =
        "port host hosts folder node nodes peers members primary_port shards shard";
    const std::vector<std::string> taken = split_words(kTaken);
    for (const std::string& port : program.ports) {
      if (std::find(taken.begin(), taken.end(), port) != taken.end()) {
        reader.fail(*table.get("ports"), "ports", "has the name of something else: " + port);
      }
    }
  }

  void read_member(const toml::table& table) {
    MemberSpec& member = topology_.member.emplace();
    Reader reader(table, " in [member]", complaints_);
    fields(reader, member);
    reader.finish();
    check_ports(member, table, reader);
    std::vector<std::string> known = known_to_all();
    known.insert(known.end(), member.ports.begin(), member.ports.end());
    check_placeholders(table, member, std::move(known));
  }

  void read_server(const toml::table& table) {
    ServerSpec& server = topology_.server.emplace();
    Reader reader(table, " in [server]", complaints_);
    fields(reader, server);
    server.files = reader.texts("files");
    reader.finish();
    check_ports(server, table, reader);
    check_placeholders(table, server, known_to_servers());
    if (const toml::table* files = table["files"].as_table()) {
      PlaceholderCheck check(*files, known_to_servers(), complaints_);
      for (const auto& [name, text] : server.files) check.look_at(name, text);
    }
    if (const std::vector<std::string> in_peer = placeholders(server.peer);
        std::find(in_peer.begin(), in_peer.end(), "peers") != in_peer.end()) {
      reader.fail(*table.get("peer"), "peer", "cannot hold {peers}, which is made of it");
    }
  }

  void read_replica(const toml::table& table) {
    ReplicaSpec& replica = topology_.replica.emplace();
    Reader reader(table, " in [replica]", complaints_);
    fields(reader, replica);
    reader.finish();
    if (!topology_.server) return;
    std::vector<std::string> known = known_to_servers();
    known.emplace_back("primary_port");
    check_placeholders(table, replica, std::move(known));
  }

  void read_cell(const toml::table& table) {
    Cell& cell = topology_.cells.emplace_back();
    cell.what.store.proxy = topology_.has_proxies();
    cell.what.clients.processes = topology_.one_process ? 1 : 4;
    Reader reader(table, " in [[cell]]", complaints_);
    fields(reader, cell);
    read_body(reader, cell.what, complaints_);
    reader.finish();
    check_cell(cell, topology_, complain_at(table));
    if (!names_.insert(cell.what.name).second) {
      complaints_.add(table, "there is a [[cell]] of this name already: " + cell.what.name);
    }
  }

  const toml::table& root_;
  Complaints& complaints_;
  Topology topology_;
  std::set<std::string> names_;
};

void add_missing(toml::table& own, const toml::table& base) {
  for (auto&& [key, node] : base) {
    toml::node* const mine = own.get(key.str());
    if (mine == nullptr) {
      own.insert(key.str(), node);
    } else if (mine->is_table() && node.is_table()) {
      add_missing(*mine->as_table(), *node.as_table());
    }
  }
}

// A variant has only its differences from a topology of the lab.
void add_base(toml::table& root, Complaints& complaints) {
  const toml::node* const base = root.get("base");
  const auto name = base == nullptr ? std::nullopt : base->value_exact<std::string>();
  if (!name) return;
  for (const auto& each : kShippedTopologies) {
    if (each.name != *name) continue;
    auto table = parse_toml(std::string(each.text), std::string(each.file));
    if (!table) throw std::logic_error(table.error().message());
    add_base(*table, complaints);
    return add_missing(root, *table);
  }
  complaints.add(
      *base, "base is " + cli::in_quotes(cli::shortened(*name)) +
                 ", which is no topology of the lab; it may be: " + listed(shipped_topologies()));
}

}  // namespace

Result<TopologyPointer> read_topology(const std::string& text, const std::string& file) {
  Result<toml::table> root = parse_toml(text, file);
  if (!root) return root.error();
  Complaints complaints(file);
  add_base(*root, complaints);
  Topology topology = TopologyReader(*root, complaints).read();
  if (complaints.first()) return *complaints.first();
  topology.text = text;
  return TopologyPointer(std::make_shared<Topology>(std::move(topology)));
}

Result<TopologyPointer> read_topology_file(const std::string& path) {
  const Result<std::string> text = read_text_file(path, "topology");
  if (!text) return text.error();
  return read_topology(*text, path);
}

const std::vector<std::string>& shipped_topologies() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& each : kShippedTopologies) all.emplace_back(each.name);
    return all;
  }();
  return names;
}

TopologyPointer shipped_topology(const std::string& name) {
  static const std::vector<TopologyPointer> all = [] {
    std::vector<TopologyPointer> found;
    for (const auto& each : kShippedTopologies) {
      const auto topology = read_topology(std::string(each.text), std::string(each.file));
      if (!topology) throw std::logic_error(topology.error().message());
      found.push_back(*topology);
    }
    return found;
  }();
  for (const TopologyPointer& topology : all) {
    if (topology->name == name) return topology;
  }
  return nullptr;
}

std::vector<std::string> store_kinds() {
  std::vector<std::string> kinds = shipped_topologies();
  kinds.insert(kinds.end(), {"url", "none"});
  return kinds;
}

Result<Scenario> scenario_on(const std::string& store) {
  Scenario scenario;
  const std::size_t scheme = store.find(':');
  // If every process has a store of its own, it cannot be the user's.
  const TopologyPointer named = shipped_topology(store.substr(0, scheme));
  if (named != nullptr && (scheme == store.npos || named->one_process)) {
    scenario.store.kind = named->name;
    scenario.topology = named;
    return scenario;
  }
  if (scheme == store.npos) {
    return Error(Errc::kInvalidArgument, "there is no store " + cli::in_quotes(store) + "; say " +
                                             listed(shipped_topologies()) + ", or a URL");
  }
  scenario.store.kind = "url";
  scenario.store.url = store;
  return scenario;
}

}  // namespace holdfast::lab
