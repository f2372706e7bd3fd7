// zookeeper://[USER:PASSWORD@]HOST[:PORT][,HOST...][/CHROOT][?option=...]
//
// Options: session=DURATION (15s), recipe=curator|curator-rw|kazoo, those of a log-in
// (src/port/url_parts.h).
// Errors: kInvalidArgument, with what was expected; kUnsupported for TLS, which the packaged client
// library does not have.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "holdfast/result.h"
#include "src/port/store_url.h"
#include "src/port/url_parts.h"
#include "src/stores/zookeeper/nodes.h"

namespace holdfast::stores::zookeeper {

struct ZookeeperAddress {
  std::string servers;  // "h1:2181,h2:2181", as the client library wants them.
  std::vector<port::Endpoint> endpoints;  // The same.
  std::string base;     // "/chroot/hf1"
  std::string auth;     // "user:password"; empty: none.
  std::string chroot;   // "/chroot"; empty: none.
  Recipe recipe = Recipe::kOwn;
  std::chrono::milliseconds session = std::chrono::seconds(15);
};

Result<ZookeeperAddress> parse_zookeeper_url(port::StoreUrl& url);

}  // namespace holdfast::stores::zookeeper
