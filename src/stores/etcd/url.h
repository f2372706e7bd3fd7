// Where an etcd cluster is and how to show oneself to it, as a store URL says it.
//
//   etcd://[[user]:password@]host[:port][,host[:port]...][/prefix]     plain; port 2379
//   etcds://...                                                        TLS
//
// `etcd://` alone means 127.0.0.1. Options taken out of the URL, besides those of
// src/port/url_parts.h (named in no way, the password is HOLDFAST_ETCD_PASSWORD):
//   connect_timeout=D    for one server, TLS included (default 3s)
//   session=D            of the client's session, in whole seconds, at least 1s (default 15s)
//   recipe=etcd          locks as etcd's own concurrency package and `etcdctl lock` keep them
//
// Guarantee: no message that comes of an address holds a user or a password.
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

struct EtcdAddress {
  std::vector<port::Endpoint> servers;
  std::string prefix;  // What all keys begin with: empty, or without slashes at its ends.
  bool tls = false;
  port::Login login;
  port::TlsPaths tls_paths;
  std::chrono::milliseconds connect_timeout{3000};
  std::chrono::seconds session_ttl{15};
  bool foreign_recipe = false;  // recipe=etcd

  std::string display() const;  // "etcd://h1:2379,h2:2379/prefix": for messages.
};

// Takes from `url` what an address is made of, the path included; other options stay in it.
Result<EtcdAddress> parse_etcd_url(port::StoreUrl& url);

}  // namespace holdfast::stores::etcd
