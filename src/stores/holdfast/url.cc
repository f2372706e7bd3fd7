#include "src/stores/holdfast/url.h"

#include <algorithm>
#include <string>
#include <utility>

#include "src/port/url_parts.h"

namespace holdfast::stores::holdfast {
namespace {

constexpr std::uint16_t kPort = 7420;

bool names_user(const port::StoreUrl& url) {
  const auto is_user = [](const auto& option) { return option.first == "user"; };
  return url.authority.find('@') != std::string::npos ||
         std::any_of(url.options.begin(), url.options.end(), is_user);
}

}  // namespace

Result<redis::RedisAddress> parse_url(port::StoreUrl& url) {
  redis::RedisAddress address;
  address.lock_service = true;
  if (auto good = port::expect_slashes(url, "holdfast"); !good) return good.error();
  // Without a user there is nothing to log in as, whatever the environment has.
  auto login =
      port::take_login(url, "holdfast", names_user(url) ? "HOLDFAST_SERVICE_PASSWORD" : "");
  if (!login) return login.error();
  if (login->user.empty() && login->password) {
    return Error(Errc::kInvalidArgument,
                 "holdfast URL: a password needs its user: holdfast://USER@HOST");
  }
  address.user = std::move(login->user);
  address.password = std::move(login->password);
  address.tls = url.scheme == "holdfasts";
  auto tls = port::take_tls(url, address.tls, "holdfast", "holdfasts://");
  if (!tls) return tls.error();
  address.tls_ca = std::move(tls->ca);
  address.tls_cert = std::move(tls->cert);
  address.tls_key = std::move(tls->key);
  address.tls_name = std::move(tls->name);
  auto servers = port::parse_endpoints(url, {address.host, kPort}, "holdfast");
  if (!servers) return servers.error();
  address.host = servers->front().host;
  address.port = servers->front().port;
  address.nodes = *std::move(servers);
  if (url.path.size() > 1) {
    return Error(Errc::kInvalidArgument,
                 "holdfast URL: nothing comes after the port: write "
                 "holdfast://HOST:PORT, or several with commas between");
  }
  url.path.clear();
  const auto options = port::UrlOptions::take(url, "holdfast", kUrlOptions);
  if (!options) return options.error();
  address.connect_timeout = options->time("connect_timeout");
  return address;
}

}  // namespace holdfast::stores::holdfast
