// The address of a Redis server; and that no part of what is written as its password is ever shown.

#include <algorithm>

#include "src/stores/redis/url.h"
#include "tests/fuzz/secret.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::redis_url {
namespace {

void check_address(const stores::redis::RedisAddress& address) {
  demand(address.port != 0, "port 0 is refused");
  demand(address.db <= 1'000'000, "the database has a limit");
  demand(address.socket_path.size() <= 107, "a socket's path fits into an address");
  demand(address.connect_timeout.count() > 0, "a time-out is longer than nothing");
  demand(!address.host.empty() && address.host.size() <= 255, "a host has a name");
  demand(address.display().find(kSecret) == std::string::npos, "display() shows a password");
}

bool is_password(const stores::redis::RedisAddress& address) {
  return address.password && address.password->find(kSecret) != std::string::npos;
}

}  // namespace

// A `$` in the input stands for a password.
void run(std::string_view input) {
  // Options that would read the files and descriptors of whoever runs this.
  if (input.find("password_f") != input.npos || input.find('%') != input.npos) return;
  const std::string text = with_secret(input);
  auto url = port::StoreUrl::parse(text);
  if (!url) return;
  const std::string shown = url->redacted();
  const auto address = stores::redis::parse_redis_url(*url);
  if (!address) {
    demand(!address.error().message().empty(), "a refusal has a reason");
    return;
  }
  if (input.find(kSecret.substr(1)) != input.npos) return;
  if (is_password(*address) && address->password == kSecret) {
    const auto dollars = std::count(input.begin(), input.end(), '$');
    demand(dollars != 1 || shown.find(kSecret) == std::string::npos, "redacted() shows a password");
    if (dollars == 1) check_address(*address);
  }
}

}  // namespace holdfast::fuzz::redis_url

HOLDFAST_FUZZ_TARGET(redis_url)
