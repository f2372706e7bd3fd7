#include "src/stores/holdfast/url.h"

#include <algorithm>
#include <string>
#include <utility>

#include "src/port/url_parts.h"

namespace holdfast::stores::holdfast {
namespace {

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
  address.tls = url.scheme == "holdfasts";
  // Without a user there is nothing to log in as, whatever the environment has.
  const char* const variable = names_user(url) ? "HOLDFAST_SERVICE_PASSWORD" : "";
  auto access = redis::take_access(url, "holdfast", variable, "holdfasts://", address);
  if (!access) return access.error();
  if (address.user.empty() && address.password) {
    return Error(Errc::kInvalidArgument,
                 "holdfast URL: a password needs its user: holdfast://USER@HOST");
  }
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
