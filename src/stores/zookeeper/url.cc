#include "src/stores/zookeeper/url.h"

#include <utility>

#include "src/port/url_parts.h"

namespace holdfast::stores::zookeeper {
namespace {

Error bad(std::string what) {
  return {Errc::kInvalidArgument, "zookeeper URL: " + std::move(what)};
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
  const auto options = port::UrlOptions::take(url, "zookeeper", kUrlOptions);
  if (!options) return options.error();
  address.session = options->time("session");
  const std::string recipe = options->text("recipe");
  if (recipe == "curator") address.recipe = Recipe::kCurator;
  if (recipe == "curator-rw") address.recipe = Recipe::kCuratorReadWrite;
  if (recipe == "kazoo") address.recipe = Recipe::kKazoo;
  return address;
}

}  // namespace holdfast::stores::zookeeper
