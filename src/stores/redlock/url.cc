#include "src/stores/redlock/url.h"

#include <algorithm>
#include <utility>

#include "src/port/url_parts.h"
#include "src/stores/redis/protocol/scripts.h"
#include "src/stores/redlock/quorum.h"

namespace holdfast::stores::redlock {
namespace {

constexpr std::size_t kFewestNodes = 3;
constexpr std::uint32_t kLargestDb = 1'000'000;

Error bad(std::string what) { return {Errc::kInvalidArgument, "redlock URL: " + std::move(what)}; }

Result<redis::RedisAddress> take_common(port::StoreUrl& url) {
  redis::RedisAddress common;
  common.tls = url.scheme == "redlocks";
  auto access =
      redis::take_access(url, "redlock", "HOLDFAST_REDIS_PASSWORD", "redlocks://", common);
  if (!access) return access.error();
  return common;
}

Result<std::uint32_t> take_database(port::StoreUrl& url, const port::UrlOptions& options) {
  const std::string path = std::exchange(url.path, "");
  if (path.size() <= 1) return options.number("db");
  if (options.has("db")) return bad("the database is given twice, as the path and as db=");
  return port::parse_number(std::string_view(path).substr(1), kLargestDb, "redlock",
                            "the database (/db)");
}

// The nodes by name, and where each is.
Result<std::vector<std::pair<std::string, port::Endpoint>>> named(std::vector<port::Endpoint> hosts,
                                                                  std::string_view names) {
  std::vector<std::pair<std::string, port::Endpoint>> nodes;
  const bool given = !names.empty();
  for (port::Endpoint& host : hosts) {
    const std::size_t end = std::min(names.find(','), names.size());
    nodes.emplace_back(given ? std::string(names.substr(0, end)) : host.text(), std::move(host));
    if (given && nodes.back().first.empty()) return bad("names= has fewer names than nodes");
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  if (!names.empty()) return bad("names= has more names than nodes");
  const auto by_name = [](const auto& a, const auto& b) { return a.first < b.first; };
  std::sort(nodes.begin(), nodes.end(), by_name);
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    if (nodes[i - 1].first == nodes[i].first) return bad(nodes[i].first + " is named twice");
  }
  return nodes;
}

}  // namespace

std::string RedlockAddress::display() const {
  return (nodes.front().tls ? "redlocks://" : "redlock://") + addresses;
}

Result<RedlockAddress> parse_redlock_url(port::StoreUrl& url) {
  if (auto good = port::expect_slashes(url, "redlock"); !good) return good.error();
  auto common = take_common(url);
  if (!common) return common.error();
  auto hosts = port::parse_endpoints(url, {"127.0.0.1", 6379}, "redlock");
  if (!hosts) return hosts.error();
  if (hosts->size() < kFewestNodes || hosts->size() > kMostNodes) {
    return bad("name 3 to 9 independent nodes, separated by commas; 5 is usual");
  }
  const auto options = port::UrlOptions::take(url, "redlock", kUrlOptions);
  if (!options) return options.error();
  const auto db = take_database(url, *options);
  if (!db) return db.error();
  common->db = *db;
  common->connect_timeout = options->time("connect_timeout");
  RedlockAddress address;
  address.node_timeout = options->time("node_timeout");
  address.timeout = options->time("timeout");
  address.longest_ttl = options->time("longest_ttl");
  address.tokens = options->text("tokens") != "no";
  auto nodes = named(*std::move(hosts), options->text("names"));
  if (!nodes) return nodes.error();
  for (auto& [name, host] : *nodes) {
    const char* const comma = address.list.empty() ? "" : ",";
    address.list += comma + name;
    address.addresses += comma + host.text();
    address.names.push_back(std::move(name));
    redis::RedisAddress node = *common;
    node.host = std::move(host.host);
    node.port = host.port;
    address.nodes.push_back(std::move(node));
  }
  const std::string database = *db != 0 ? "/" + std::to_string(*db) : "";
  address.list += database;
  address.addresses += database;
  address.cluster = redis::sha1_of("holdfast redlock 1 " + address.list + " " +
                                   std::to_string(address.longest_ttl.count()) +
                                   (address.tokens ? "" : " no tokens"));
  return address;
}

}  // namespace holdfast::stores::redlock
