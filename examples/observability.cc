// docs/guide/observability.md quotes this file; it runs as a test.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include "holdfast/holdfast.h"

namespace {

using namespace std::chrono_literals;

// [region: observer]
class Losses final : public holdfast::Observer {
 public:
  void hold_ended(const holdfast::HoldSeen& seen) override {
    if (!holdfast::is_loss(seen.how)) return;
    std::printf("lost %s with token %s\n", seen.lock.name.c_str(), seen.token.to_string().c_str());
    ++count;
  }
  std::atomic<int> count{0};
};

holdfast::Result<holdfast::Client> observed(std::shared_ptr<Losses> losses) {
  holdfast::ClientOptions options;
  options.observer = std::move(losses);
  return holdfast::Client::connect("memory:", std::move(options));
}
// [end]

void log_as_json(holdfast::ClientOptions& options) {
  // [region: log]
  options.log_event = [](const holdfast::LogEvent& event) {
    std::fprintf(stderr, "%s\n", holdfast::json_line(event).c_str());  // or logfmt_line()
  };
  // [end]
}

}  // namespace

int main() {
  const auto losses = std::make_shared<Losses>();
  {
    auto client = observed(losses);
    if (!client) return 1;
    // [region: trace]
    holdfast::AcquireOptions options{.reason = "nightly billing", .trace_id = "00-4bf92f35-01"};
    auto lease = client->mutex("orders/42").acquire(options);
    // [end]
    if (!lease || !client->break_lock("orders/42", lease->token())) return 1;
    (void)lease->renew();
  }
  holdfast::ClientOptions options;
  log_as_json(options);
  auto logging = holdfast::Client::connect("memory:", std::move(options));
  if (!logging) return 1;
  const auto lost = logging->mutex("orders/43").acquire({.ttl = 100ms, .auto_renew = false});
  while (lost && lost->held()) std::this_thread::sleep_for(5ms);
  return losses->count == 1 ? 0 : 1;
}
