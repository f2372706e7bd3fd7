#include "src/stores/zookeeper/url.h"

#include <utility>

#include "src/port/url_parts.h"

namespace holdfast::stores::zookeeper {
namespace {

constexpr auto kShortestSession = std::chrono::milliseconds(200);
constexpr auto kLongestSession = std::chrono::minutes(10);

Error bad(std::string what) {
  return {Errc::kInvalidArgument, "zookeeper URL: " + std::move(what)};
}

Result<void> take_time(port::StoreUrl& url, const char* name, std::chrono::milliseconds& time) {
  const auto text = url.take(name);
  if (!text) return {};
  const auto parsed = port::parse_duration(*text);
  if (!parsed) return bad(std::string(name) + ": " + parsed.error().message());
  time = *parsed;
  return {};
}

Result<void> check_chroot(const std::string& path) {
  if (path.empty()) return {};
  if (path.find('&') != std::string::npos) return bad("a chroot has no '&': options follow a '?'");
  if (path.find("//") != std::string::npos || path.back() == '/') {
    return bad("a chroot is written /like/this");
  }
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at + 1), path.size());
    const std::string part = path.substr(at + 1, end - at - 1);
    if (part == "." || part == ".." || (at == 0 && part == "zookeeper")) {
      return bad("'" + part + "' cannot be part of a chroot");
    }
    at = end;
  }
  return {};
}

}  // namespace

Result<ZookeeperAddress> parse_zookeeper_url(port::StoreUrl& url) {
  if (url.scheme != "zookeeper") {
    return Error(Errc::kUnsupported,
                 "zookeeper URL: the client library has no TLS: use zookeeper://");
  }
  ZookeeperAddress address;
  auto login = port::take_login(url, "zookeeper", "HOLDFAST_ZOOKEEPER_PASSWORD");
  if (!login) return login.error();
  auto tls = port::take_tls(url, /*tls=*/false, "zookeeper",
                            "TLS (which the client library does not have)");
  if (!tls) return tls.error();
  if (login->password) {
    if (login->user.empty())
      return bad(
          "a password (the URL's, or HOLDFAST_ZOOKEEPER_PASSWORD) needs a user: "
          "zookeeper://user@host");
    address.auth = login->user + ":" + *login->password;
  } else if (!login->user.empty()) {
    return bad("a user needs a password: password_file=, password_env= or in the URL");
  }
  const auto servers = port::parse_endpoints(url, {"127.0.0.1", 2181}, "zookeeper");
  if (!servers) return servers.error();
  address.endpoints = *servers;
  for (const port::Endpoint& each : *servers) {
    address.servers += (address.servers.empty() ? "" : ",") + each.text();
  }
  std::string path = std::exchange(url.path, "");
  if (path == "/") path.clear();
  if (auto good = check_chroot(path); !good) return good.error();
  address.base = path + "/hf1";
  address.chroot = path;
  if (const auto recipe = url.take("recipe")) {
    if (*recipe == "curator") {
      address.recipe = Recipe::kCurator;
    } else if (*recipe == "curator-rw") {
      address.recipe = Recipe::kCuratorReadWrite;
    } else if (*recipe == "kazoo") {
      address.recipe = Recipe::kKazoo;
    } else {
      return bad("recipe= is curator, curator-rw or kazoo");
    }
  }
  if (auto taken = take_time(url, "session", address.session); !taken) return taken.error();
  if (address.session < kShortestSession || address.session > kLongestSession) {
    return bad("a session lasts 200 ms at least and 10 minutes at most");
  }
  return address;
}

}  // namespace holdfast::stores::zookeeper
