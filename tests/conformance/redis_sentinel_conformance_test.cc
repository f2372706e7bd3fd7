// The conformance suite on a primary that Sentinels name. A restart is a fail-over.
#include "src/stores/redis/redis_store.h"
#include "tests/conformance/harness.h"
#include "tests/support/redis_sentinels.h"

namespace holdfast::testing {
namespace {

// One for all cases: it takes a second to form.
support::RedisSentinels& servers() {
  static support::RedisSentinels redis;
  return redis;
}

class SentinelSite final : public Site {
 public:
  SentinelSite() { servers().primary().flushall(); }

  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    stores::RedisTuning tuning;
    if (!real_time_) {
      tuning.now = [now = now_] { return machine::Instant(Duration(now->load())); };
    }
    return stores::make_redis_store_for_test(*port::StoreUrl::parse(servers().url()), context,
                                             std::move(tuning));
  }
  void pass(Duration time) override {
    real_time_ ? std::this_thread::sleep_for(time) : static_cast<void>(*now_ += time.count());
  }
  void restart() override {
    const std::size_t before = servers().primary_index();
    support::RedisServer& primary = servers().server(before);
    support::RedisSentinels::await_replicas(primary, 2);
    primary.must({"SET", "mark", "1"});
    primary.must({"WAIT", "2", "10000"});
    const auto asked = servers().sentinel(0).command({"SENTINEL", "FAILOVER", servers().kName});
    if (asked.is_error()) throw std::runtime_error(asked.text);
    servers().await_switch(before);
  }

  explicit SentinelSite(bool real_time) : SentinelSite() { real_time_ = real_time; }

 private:
  bool real_time_ = false;
  std::shared_ptr<std::atomic<std::int64_t>> now_ =
      std::make_shared<std::atomic<std::int64_t>>(1'000'000'000);
};

const StoreUnderTest kSentinel{[] { return std::make_unique<SentinelSite>(); },
                               [] { return std::make_unique<SentinelSite>(true); },
                               &support::RedisServer::unavailable};

}  // namespace

HOLDFAST_INSTANTIATE_CONFORMANCE(RedisSentinel, kSentinel);

}  // namespace holdfast::testing
