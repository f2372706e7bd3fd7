// The addresses of Consul's HTTP interface and the token, read from a store URL.
//
//   consul://[token@]host[:port][,host[:port]...][/prefix]     HTTP; port 8500
//   consuls://[token@]host[:port][,host[:port]...][/prefix]    HTTPS; port 8501
//
// `consul://` alone means 127.0.0.1. Several hosts are agents of one cluster; the next one is used
// when one fails. The path is the prefix of all keys (default: holdfast). Options: kUrlOptions;
// tls_ca= and so on as other stores have them (src/port/url_parts.h); and token=SECRET
// token_file=PATH token_env=NAME token_fd=N as the password options of other stores. Without a
// token in the URL, HOLDFAST_CONSUL_TOKEN or else CONSUL_HTTP_TOKEN is used.
//
// Guarantee: no message made from an address contains a token. Thread-safety: values.
// Errors: kInvalidArgument, with what was expected; kPermissionDenied or kInvalidArgument when a
// token's file or descriptor cannot be read.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/result.h"
#include "src/port/store_url.h"
#include "src/port/url_parts.h"

namespace holdfast::stores::consul {

inline constexpr port::UrlOption kUrlOptions[] = {
    port::text_option("dc", "datacenter (default: the agent's)"),
    // Less than Consul's own minimum of 10 s is for servers that allow it (session_ttl_min).
    port::time_option("session", "10s", "length of the client's session: the shortest lease",
                      std::chrono::milliseconds(500), std::chrono::hours(24)),
    port::word_option("recipe", "consul",
                      "plain locks, shared with 'consul lock': the lock NAME is its PATH/NAME, "
                      "where PATH is the URL's"),
    port::time_option("lock_delay", "15s",
                      "with recipe=consul: how long a lock stays shut after a session that ended "
                      "without a release",
                      std::chrono::milliseconds(0), std::chrono::seconds(60)),
    port::time_option("connect_timeout", "3s", "for one host, TLS included"),
};

struct ConsulAddress {
  std::vector<port::Endpoint> hosts;
  bool tls = false;
  port::TlsPaths tls_paths;
  std::string token;
  std::string datacenter;
  std::string prefix = "holdfast";  // Without a slash at either end.
  bool has_path = false;            // Whether the URL names the prefix.
  std::chrono::milliseconds session_ttl{10'000};
  std::chrono::milliseconds lock_delay{0};
  std::chrono::milliseconds connect_timeout{3000};
  bool recipe = false;      // Shares locks with `consul lock`.
  std::string shared_path;  // With a recipe: the path before the names; empty, or ends with '/'.

  // "consul://host:8500,other:8500/holdfast": for messages.
  std::string display() const;
};

// Takes the parts of an address, including the path, from `url`. Other options stay there for the
// caller to take or refuse.
Result<ConsulAddress> parse_consul_url(port::StoreUrl& url);

}  // namespace holdfast::stores::consul
