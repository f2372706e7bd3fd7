// A Redis server's address and log-in, read from a store URL.
//
//   redis://[[user]:password@]host[:port][/db]     plain TCP; port 6379, database 0
//   rediss://[[user]:password@]host[:port][/db]    TLS
//   redis+unix:///run/redis/redis.sock             a Unix socket; the database is an option
//   redis+sentinel://[[user]:password@]host[:port],host...[/db]?primary=NAME
//                                                  Sentinels; port 26379
//   rediss+sentinel://...                          the same; Sentinels and servers speak TLS
//   redis+cluster://[[user]:password@]host[:port],host...
//                                                  some nodes of a cluster; rediss+cluster:// TLS
//
// In a Sentinel URL, user and password are those of the servers. The Sentinels have options of
// their own, with `sentinel_` before the name: nothing of the servers' log-in goes to a Sentinel.
//
// The host may be a [v6] address; `redis://` alone means 127.0.0.1. Options: kUrlOptions, and those
// of src/port/url_parts.h. A URL with two sources of a password is refused. Without any,
// HOLDFAST_REDIS_PASSWORD is used if it is set and not empty.
//
// Guarantee: no message made from an address contains a user or a password.
// Thread-safety: values. Errors: kInvalidArgument, with what was expected; kPermissionDenied or
// kInvalidArgument when a password's file or descriptor cannot be read.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/result.h"
#include "src/port/store_url.h"
#include "src/port/url_options.h"
#include "src/port/url_parts.h"

namespace holdfast::stores::redis {

inline constexpr port::UrlOption kUrlOptions[] = {
    port::number_option("db", "", "database; it may also be the path", 1'000'000),
    port::time_option("connect_timeout", "3s", "for one address, TLS and log-in included"),
    port::number_option("replicas", "0", "so many have to confirm each grant; 0: none", 100),
    port::time_option("replicas_timeout", "1s", "how long they may take"),
};
inline constexpr port::UrlOption kSentinelOptions[] = {
    port::text_option("primary", "the name under which the Sentinels know it"),
    port::word_option("sentinel_tls", "yes|no", "whether the Sentinels speak TLS"),
};

struct RedisAddress {
  std::string host = "127.0.0.1";  // Without brackets; unused with a socket.
  std::uint16_t port = 6379;
  std::string socket_path;  // If not empty, a Unix socket.
  bool tls = false;
  std::string user;  // If empty, the server's default user.
  std::optional<std::string> password;
  std::uint32_t db = 0;
  std::string tls_ca;
  std::string tls_cert;
  std::string tls_key;
  std::string tls_name;  // If empty, the host.
  std::chrono::milliseconds connect_timeout{3000};
  std::uint32_t replicas = 0;  // These have to confirm grants.
  std::chrono::milliseconds replicas_timeout{1000};
  bool is_sentinel = false;  // This is the address of a Sentinel.
  // With Sentinels, the host and port above are unused.
  std::vector<RedisAddress> sentinels;
  std::string primary;
  // Some nodes of a cluster. With it, the host and port above are unused.
  std::vector<port::Endpoint> nodes;
  bool lock_service = false;           // Holdfast's own server, which speaks this protocol.
  std::optional<std::uint32_t> shard;  // The lock service has several.

  // "redis://host:6379/0", "the Sentinel host:26379": for messages.
  std::string display() const;
};

// Takes the log-in and the files of TLS. `store` begins the messages, `variable` is the one of the
// environment that may hold the password, `tls_scheme` the scheme of URLs that mean TLS.
Result<void> take_access(port::StoreUrl& url, std::string_view store, const char* variable,
                         std::string_view tls_scheme, RedisAddress& address);

// Takes the parts of an address, including the path, from `url`. Other options stay there for the
// caller to take or refuse.
Result<RedisAddress> parse_redis_url(port::StoreUrl& url);

}  // namespace holdfast::stores::redis
