// zookeeper://[USER:PASSWORD@]HOST[:PORT][,HOST...][/CHROOT][?option=...]
//
// Options: kUrlOptions, and those of a log-in (src/port/url_parts.h).
// Errors: kInvalidArgument, with what was expected; kUnsupported for TLS, which the packaged client
// library does not have.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "holdfast/result.h"
#include "src/port/store_url.h"
#include "src/port/url_parts.h"
#include "src/stores/zookeeper/recipes.h"

namespace holdfast::stores::zookeeper {

inline constexpr port::UrlOption kUrlOptions[] = {
    port::time_option("session", "15s", "length of the client's session",
                      std::chrono::milliseconds(200), std::chrono::minutes(10)),
    port::word_option("recipe", "curator|curator-rw|kazoo",
                      "locks as that client library keeps them"),
};

struct ZookeeperAddress {
  std::string servers;                    // "h1:2181,h2:2181", for the client library.
  std::vector<port::Endpoint> endpoints;  // The same.
  std::string base;                       // "/chroot/hf1"
  std::string auth;                       // "user:password", or empty.
  std::string chroot;                     // "/chroot", or empty.
  Recipe recipe = Recipe::kOwn;
  std::chrono::milliseconds session = std::chrono::seconds(15);
};

Result<ZookeeperAddress> parse_zookeeper_url(port::StoreUrl& url);

}  // namespace holdfast::stores::zookeeper
