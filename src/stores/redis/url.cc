#include "src/stores/redis/url.h"

#include <string_view>
#include <utility>

namespace holdfast::stores::redis {
namespace {

constexpr std::size_t kLongestSocketPath = 107;
constexpr std::uint32_t kLargestDb = 1'000'000;

Error bad(std::string what) { return {Errc::kInvalidArgument, "redis URL: " + std::move(what)}; }

constexpr std::uint16_t kSentinelPort = 26379;
constexpr std::string_view kSentinelPrefix = "sentinel_";

bool names_sentinels(const port::StoreUrl& url) {
  return url.scheme == "redis+sentinel" || url.scheme == "rediss+sentinel";
}

bool names_cluster(const port::StoreUrl& url) {
  return url.scheme == "redis+cluster" || url.scheme == "rediss+cluster";
}

// Takes the options with the prefix, as those of a URL of its own.
port::StoreUrl take_prefixed(port::StoreUrl& url) {
  port::StoreUrl own;
  std::erase_if(url.options, [&](auto& option) {
    if (!option.first.starts_with(kSentinelPrefix)) return false;
    own.options.emplace_back(option.first.substr(kSentinelPrefix.size()), std::move(option.second));
    return true;
  });
  return own;
}

Result<void> take_sentinels(port::StoreUrl& url, RedisAddress& address) {
  const auto hosts = port::parse_endpoints(url, {address.host, kSentinelPort}, "redis");
  if (!hosts) return hosts.error();
  const auto options = port::UrlOptions::take(url, "redis", kSentinelOptions);
  if (!options) return options.error();
  address.primary = options->text("primary");
  if (address.primary.empty()) {
    return bad("name the primary as the Sentinels know it: ?primary=mymaster");
  }
  port::StoreUrl own = take_prefixed(url);
  RedisAddress sentinel;
  sentinel.is_sentinel = true;
  sentinel.tls =
      options->has("sentinel_tls") ? options->text("sentinel_tls") == "yes" : address.tls;
  auto login = port::take_login(own, "redis (Sentinels)", "HOLDFAST_REDIS_SENTINEL_PASSWORD");
  if (!login) return login.error();
  sentinel.user = std::move(login->user);
  sentinel.password = std::move(login->password);
  auto tls = port::take_tls(own, sentinel.tls, "redis (Sentinels)", "sentinel_tls=yes");
  if (!tls) return tls.error();
  if (auto known = port::reject_unknown_options(own, "redis (Sentinels)"); !known) return known;
  // The same authority usually signs both.
  const bool own_files = !tls->ca.empty() || !tls->cert.empty() || !tls->key.empty();
  sentinel.tls_ca = own_files || !sentinel.tls ? std::move(tls->ca) : address.tls_ca;
  sentinel.tls_cert = own_files || !sentinel.tls ? std::move(tls->cert) : address.tls_cert;
  sentinel.tls_key = own_files || !sentinel.tls ? std::move(tls->key) : address.tls_key;
  sentinel.tls_name = std::move(tls->name);
  for (const port::Endpoint& host : *hosts) {
    sentinel.host = host.host;
    sentinel.port = host.port;
    address.sentinels.push_back(sentinel);
  }
  return {};
}

Result<void> take_host(const port::StoreUrl& url, RedisAddress& address) {
  if (url.scheme == "redis+unix") {
    if (url.authority.empty()) return {};
    return bad("redis+unix:// has no host: three slashes before the path");
  }
  if (auto good = port::expect_slashes(url, "redis"); !good) return good;
  auto endpoint = port::parse_endpoint(url.authority, {address.host, address.port}, "redis");
  if (!endpoint) return endpoint.error();
  address.host = std::move(endpoint->host);
  address.port = endpoint->port;
  return {};
}

Result<void> take_nodes(const port::StoreUrl& url, RedisAddress& address) {
  auto nodes = port::parse_endpoints(url, {address.host, address.port}, "redis");
  if (!nodes) return nodes.error();
  address.nodes = *std::move(nodes);
  return {};
}

Result<void> take_path(port::StoreUrl& url, bool db_is_option, RedisAddress& address) {
  std::string path = std::exchange(url.path, "");
  if (url.scheme == "redis+unix") {
    if (!path.starts_with('/') || path.size() < 2) {
      return bad("write redis+unix:///path/to/redis.sock");
    }
    // Messages show the path, so it must not hold options with secrets.
    if (path.find_first_of("&;") != std::string::npos && path.find('=') != std::string::npos) {
      return bad("options come after a '?', not in the socket's path");
    }
    if (path.size() > kLongestSocketPath) return bad("a socket's path has at most 107 bytes");
    address.socket_path = std::move(path);
    return {};
  }
  if (path.size() <= 1) return {};
  if (db_is_option) return bad("the database is given twice, as the path and as db=");
  const auto db = port::parse_number(std::string_view(path).substr(1), kLargestDb, "redis",
                                     "the database (/db)");
  if (!db) return db.error();
  address.db = *db;
  return {};
}

}  // namespace

std::string RedisAddress::display() const {
  if (is_sentinel) {
    return "the Sentinel " + port::Endpoint{host, port}.text() + (tls ? " (TLS)" : "");
  }
  const std::string tail = db == 0 ? "" : (socket_path.empty() ? "/" : "?db=") + std::to_string(db);
  if (!socket_path.empty()) return "redis+unix://" + socket_path + tail;
  if (!nodes.empty()) {
    std::string hosts;
    for (const port::Endpoint& each : nodes) hosts += (hosts.empty() ? "" : ",") + each.text();
    const char* const scheme = lock_service ? (tls ? "holdfasts://" : "holdfast://")
                               : tls        ? "rediss+cluster://"
                                            : "redis+cluster://";
    return scheme + hosts;
  }
  if (!sentinels.empty()) {
    std::string hosts;
    for (const RedisAddress& each : sentinels) {
      hosts += (hosts.empty() ? "" : ",") + port::Endpoint{each.host, each.port}.text();
    }
    return (tls ? "rediss+sentinel://" : "redis+sentinel://") + hosts + tail +
           "?primary=" + primary;
  }
  return (tls ? "rediss://" : "redis://") + port::Endpoint{host, port}.text() + tail;
}

Result<void> take_access(port::StoreUrl& url, std::string_view store, const char* variable,
                         std::string_view tls_scheme, RedisAddress& address) {
  auto login = port::take_login(url, store, variable);
  if (!login) return login.error();
  address.user = std::move(login->user);
  address.password = std::move(login->password);
  auto tls = port::take_tls(url, address.tls, store, tls_scheme);
  if (!tls) return tls.error();
  address.tls_ca = std::move(tls->ca);
  address.tls_cert = std::move(tls->cert);
  address.tls_key = std::move(tls->key);
  address.tls_name = std::move(tls->name);
  return {};
}

Result<RedisAddress> parse_redis_url(port::StoreUrl& url) {
  if (url.scheme != "redis" && url.scheme != "rediss" && url.scheme != "redis+unix" &&
      !names_sentinels(url) && !names_cluster(url)) {
    return bad(
        "begins with redis://, rediss://, redis+unix://, redis+sentinel:// or redis+cluster://");
  }
  RedisAddress address;
  address.tls = url.scheme.starts_with("rediss");
  auto access = take_access(url, "redis", "HOLDFAST_REDIS_PASSWORD", "rediss://", address);
  if (!access) return access.error();
  const bool by_sentinels = names_sentinels(url);
  auto hosts = by_sentinels         ? take_sentinels(url, address)
               : names_cluster(url) ? take_nodes(url, address)
                                    : take_host(url, address);
  if (!hosts) return hosts.error();
  const auto options = port::UrlOptions::take(url, "redis", kUrlOptions);
  if (!options) return options.error();
  address.db = options->number("db");
  address.connect_timeout = options->time("connect_timeout");
  address.replicas = options->number("replicas");
  address.replicas_timeout = options->time("replicas_timeout");
  for (RedisAddress& each : address.sentinels) each.connect_timeout = address.connect_timeout;
  if (auto taken = take_path(url, options->has("db"), address); !taken) return taken.error();
  if (!address.nodes.empty() && address.db != 0) {
    return bad("a cluster has database 0 only: leave the database out");
  }
  return address;
}

}  // namespace holdfast::stores::redis
