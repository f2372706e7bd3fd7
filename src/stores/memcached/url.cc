#include "src/stores/memcached/url.h"

#include <utility>

namespace holdfast::stores::memcached {
namespace {

Error bad(std::string what) {
  return {Errc::kInvalidArgument, "memcached URL: " + std::move(what)};
}

}  // namespace

Result<MemcachedAddress> parse_memcached_url(port::StoreUrl& url) {
  if (auto good = port::expect_slashes(url, "memcached"); !good) return good.error();
  if (url.authority.find('@') != std::string::npos) {
    return bad("a user or a password is not supported: Holdfast speaks the text protocol, without "
               "SASL; restrict who reaches the server's port");
  }
  if (!url.path.empty() && url.path != "/") return bad("a path has no meaning: use ?ns=");
  auto hosts = port::parse_endpoints(url, {"127.0.0.1", 11211}, "memcached");
  if (!hosts) return hosts.error();
  if (hosts->size() > 1) {
    return bad("name one server: clients that choose among several could hold one lock twice");
  }
  url.path.clear();
  const auto options = port::UrlOptions::take(url, "memcached", kUrlOptions);
  if (!options) return options.error();
  MemcachedAddress address;
  address.host = hosts->front();
  address.connect_timeout = options->time("connect_timeout");
  address.poll = options->time("poll");
  return address;
}

}  // namespace holdfast::stores::memcached
