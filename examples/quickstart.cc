// The ten lines of README.md, and the same in the standard's vocabulary; run as a test.
#include <chrono>
#include <cstdio>
#include <mutex>

#include "holdfast/holdfast.h"

namespace {

void charge(const holdfast::Token& token) {
  std::printf("charged with token %s\n", token.to_string().c_str());
}

holdfast::Result<void> lease_as_a_value() {
  using namespace std::chrono_literals;
  // [region: quick]
  auto client = holdfast::Client::connect("memory:");  // or sqlite:///var/lib/app/locks.db
  if (!client) return client.error();
  auto lease = client->mutex("orders/42").acquire({.wait = 5s, .ttl = 30s});
  if (!lease) return lease.error();  // kTimedOut, kUnavailable ...: each names your next step

  charge(lease->token());                       // let the resource refuse an older token
  if (auto loss = lease->loss()) return *loss;  // stop: the lock may soon be someone else's
  return lease->release();                      // or let the destructor do it
  // [end]
}

holdfast::Result<void> standard_vocabulary() {
  auto client = holdfast::Client::connect("memory:");
  if (!client) return client.error();
  // [region: lockable]
  auto orders = client->mutex("orders");
  auto stock = client->mutex("stock");
  std::scoped_lock guard(orders, stock);  // throws std::system_error when the store fails
  // [end]
  std::printf("both held\n");
  return {};
}

}  // namespace

int main() {
  for (const auto example : {lease_as_a_value, standard_vocabulary}) {
    const auto result = example();
    if (!result) {
      std::fprintf(stderr, "%s\n", result.error().message().c_str());
      return 1;
    }
  }
  return 0;
}
