#include "src/stores/holdfast/url.h"

#include <string>
#include <utility>

#include "src/port/url_parts.h"

namespace holdfast::stores::holdfast {
namespace {

constexpr std::uint16_t kPort = 7420;

}  // namespace

Result<redis::RedisAddress> parse_url(port::StoreUrl& url) {
  redis::RedisAddress address;
  address.lock_service = true;
  if (auto good = port::expect_slashes(url, "holdfast"); !good) return good.error();
  if (url.authority.find('@') != std::string::npos) {
    return Error(Errc::kInvalidArgument,
                 "holdfast URL: this version of the lock service has no users: write "
                 "holdfast://HOST:PORT without a log-in");
  }
  auto servers = port::parse_endpoints(url, {address.host, kPort}, "holdfast");
  if (!servers) return servers.error();
  address.host = servers->front().host;
  address.port = servers->front().port;
  address.nodes = *std::move(servers);
  if (url.path.size() > 1) {
    return Error(Errc::kInvalidArgument, "holdfast URL: nothing comes after the port: write "
                                         "holdfast://HOST:PORT, or several with commas between");
  }
  url.path.clear();
  const auto options = port::UrlOptions::take(url, "holdfast", kUrlOptions);
  if (!options) return options.error();
  address.connect_timeout = options->time("connect_timeout");
  return address;
}

}  // namespace holdfast::stores::holdfast
