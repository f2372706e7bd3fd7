#include "src/stores/redis/url.h"

#include <string_view>
#include <utility>

#include "src/port/url_parts.h"

namespace holdfast::stores::redis {
namespace {

constexpr std::size_t kLongestSocketPath = 107;
constexpr std::uint32_t kLargestDb = 1'000'000;

Error bad(std::string what) { return {Errc::kInvalidArgument, "redis URL: " + std::move(what)}; }

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

Result<void> take_credentials(port::StoreUrl& url, RedisAddress& address) {
  auto login = port::take_login(url, "redis", "HOLDFAST_REDIS_PASSWORD");
  if (!login) return login.error();
  address.user = std::move(login->user);
  address.password = std::move(login->password);
  address.tls = url.scheme == "rediss";
  auto tls = port::take_tls(url, address.tls, "redis", "rediss://");
  if (!tls) return tls.error();
  address.tls_ca = std::move(tls->ca);
  address.tls_cert = std::move(tls->cert);
  address.tls_key = std::move(tls->key);
  address.tls_name = std::move(tls->name);
  return {};
}

}  // namespace

std::string RedisAddress::display() const {
  const std::string tail = db == 0 ? "" : (socket_path.empty() ? "/" : "?db=") + std::to_string(db);
  if (!socket_path.empty()) return "redis+unix://" + socket_path + tail;
  return (tls ? "rediss://" : "redis://") + port::Endpoint{host, port}.text() + tail;
}

Result<RedisAddress> parse_redis_url(port::StoreUrl& url) {
  if (url.scheme != "redis" && url.scheme != "rediss" && url.scheme != "redis+unix") {
    return bad("begins with redis://, rediss:// or redis+unix://");
  }
  RedisAddress address;
  if (auto taken = take_credentials(url, address); !taken) return taken.error();
  if (auto taken = take_host(url, address); !taken) return taken.error();
  const auto options = port::UrlOptions::take(url, "redis", kUrlOptions);
  if (!options) return options.error();
  address.db = options->number("db");
  address.connect_timeout = options->time("connect_timeout");
  if (auto taken = take_path(url, options->has("db"), address); !taken) return taken.error();
  return address;
}

}  // namespace holdfast::stores::redis
