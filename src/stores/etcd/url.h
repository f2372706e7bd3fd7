// An etcd cluster's addresses and log-in, read from a store URL.
//
//   etcd://[[user]:password@]host[:port][,host[:port]...][/prefix]     plain; port 2379
//   etcds://...                                                        TLS
//
// `etcd://` alone means 127.0.0.1. Options: kUrlOptions, and those of src/port/url_parts.h. Without
// a password in the URL, HOLDFAST_ETCD_PASSWORD is used.
//
// Guarantee: no message made from an address contains a user or a password.
// Thread-safety: values. Errors: kInvalidArgument, with what was expected; kPermissionDenied or
// kInvalidArgument when a password's file or descriptor cannot be read.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/result.h"
#include "src/port/store_url.h"
#include "src/port/url_parts.h"

namespace holdfast::stores::etcd {

inline constexpr port::UrlOption kUrlOptions[] = {
    port::time_option("connect_timeout", "3s", "for one server, TLS included"),
    port::time_option("session", "15s", "length of the client's session, rounded up to seconds",
                      std::chrono::seconds(1), std::chrono::hours(24)),
    port::word_option("recipe", "etcd",
                      "locks as etcd's own concurrency package and 'etcdctl lock' keep them"),
};

struct EtcdAddress {
  std::vector<port::Endpoint> servers;
  std::string prefix;  // The prefix of all keys: empty, or without slashes at its ends.
  bool tls = false;
  port::Login login;
  port::TlsPaths tls_paths;
  std::chrono::milliseconds connect_timeout{3000};
  std::chrono::seconds session_ttl{15};
  bool foreign_recipe = false;  // recipe=etcd

  std::string display() const;  // "etcd://h1:2379,h2:2379/prefix": for messages.
};

// Takes the parts of an address, including the path, from `url`; other options stay there.
Result<EtcdAddress> parse_etcd_url(port::StoreUrl& url);

}  // namespace holdfast::stores::etcd
