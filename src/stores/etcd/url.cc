#include "src/stores/etcd/url.h"

#include <algorithm>
#include <utility>

namespace holdfast::stores::etcd {
namespace {

constexpr std::uint16_t kPort = 2379;
constexpr std::size_t kLongestPrefix = 512;

Error bad(std::string what) { return {Errc::kInvalidArgument, "etcd URL: " + std::move(what)}; }

Result<std::string> prefix_of(std::string path) {
  const auto begin = path.find_first_not_of('/');
  if (begin == std::string::npos) return std::string();
  path = path.substr(begin, path.find_last_not_of('/') - begin + 1);
  if (path.size() > kLongestPrefix) return bad("the prefix (/prefix) has at most 512 bytes");
  if (path.find('&') != std::string::npos) {
    return bad("the prefix (/prefix) has no '&': options follow a '?'");
  }
  if (std::any_of(path.begin(), path.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; })) {
    return bad("the prefix (/prefix) has no control characters");
  }
  return path;
}

}  // namespace

std::string EtcdAddress::display() const {
  std::string text = tls ? "etcds://" : "etcd://";
  for (std::size_t i = 0; i < servers.size(); ++i) text += (i == 0 ? "" : ",") + servers[i].text();
  return prefix.empty() ? text : text + "/" + prefix;
}

Result<EtcdAddress> parse_etcd_url(port::StoreUrl& url) {
  EtcdAddress address;
  if (url.scheme != "etcd" && url.scheme != "etcds") return bad("begins with etcd:// or etcds://");
  address.tls = url.scheme == "etcds";
  auto login = port::take_login(url, "etcd", "HOLDFAST_ETCD_PASSWORD");
  if (!login) return login.error();
  if (login->password && login->user.empty())
    return bad("a password (the URL's, or HOLDFAST_ETCD_PASSWORD) needs a user: etcd://user@host");
  if (!login->user.empty() && !login->password)
    return bad("a user needs a password: set HOLDFAST_ETCD_PASSWORD, or name it in the URL");
  address.login = *std::move(login);
  auto servers = port::parse_endpoints(url, {"127.0.0.1", kPort}, "etcd");
  if (!servers) return servers.error();
  address.servers = *std::move(servers);
  auto prefix = prefix_of(std::exchange(url.path, ""));
  if (!prefix) return prefix.error();
  address.prefix = *std::move(prefix);
  auto tls = port::take_tls(url, address.tls, "etcd", "etcds://");
  if (!tls) return tls.error();
  address.tls_paths = *std::move(tls);
  const auto options = port::UrlOptions::take(url, "etcd", kUrlOptions);
  if (!options) return options.error();
  address.connect_timeout = options->time("connect_timeout");
  address.session_ttl = std::chrono::ceil<std::chrono::seconds>(options->time("session"));
  address.foreign_recipe = options->has("recipe");
  return address;
}

}  // namespace holdfast::stores::etcd
