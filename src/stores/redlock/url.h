// The nodes of a Redlock cluster, as a store URL says them.
//
//   redlock://[[user]:password@]host[:port],host[:port],host[:port][/db]     plain TCP; port 6379
//   redlocks://...                                                           TLS
//
// Three to nine nodes. The names of the nodes (by default their addresses), the database and
// `longest_ttl` together are the cluster: every node keeps them and its own name, and refuses a
// client with others. The order does not matter, the spelling does.
//
// Thread-safety: values. Errors: as those of the redis store's URL.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "holdfast/result.h"
#include "src/port/store_url.h"
#include "src/port/url_options.h"
#include "src/stores/redis/url.h"

namespace holdfast::stores::redlock {

inline constexpr port::UrlOption kUrlOptions[] = {
    port::number_option("db", "", "database of every node; it may also be the path", 1'000'000),
    port::time_option("connect_timeout", "3s", "for one address, TLS and log-in included"),
    port::time_option("node_timeout", "1s", "for the answer of one node",
                      std::chrono::milliseconds(10), std::chrono::milliseconds(60'000)),
    port::time_option("timeout", "2s", "for one try at all nodes, both phases",
                      std::chrono::milliseconds(20), std::chrono::milliseconds(120'000)),
    port::time_option("longest_ttl", "60s",
                      "longest lease, and how long a node that lost its memory takes no part; a "
                      "part of the cluster's identity",
                      std::chrono::milliseconds(500), std::chrono::hours(24)),
    port::text_option("names",
                      "the nodes' names in the order of their addresses, for clients that reach "
                      "them by other addresses (tunnels); default the addresses themselves"),
    port::word_option("tokens", "yes|no",
                      "no: one phase in place of two, and no fencing tokens (default yes)"),
};

struct RedlockAddress {
  std::vector<redis::RedisAddress> nodes;
  std::vector<std::string> names;  // The nodes' names, in ascending order.
  std::string list;                // The names, for people and for the identity.
  std::string addresses;           // In the same order.
  std::string cluster;  // The identity: 40 hexadecimal digits.
  std::chrono::milliseconds node_timeout{1000};
  std::chrono::milliseconds timeout{2000};
  std::chrono::milliseconds longest_ttl{60'000};
  bool tokens = true;

  std::string display() const;  // "redlock://a:6379,b:6379,c:6379": for messages.
};

Result<RedlockAddress> parse_redlock_url(port::StoreUrl& url);

}  // namespace holdfast::stores::redlock
