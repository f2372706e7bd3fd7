// A Redis server of its own whose time passes when the test says so.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "src/stores/redis/redis_store.h"
#include "tests/conformance/harness.h"
#include "tests/support/redis_server.h"

namespace holdfast::testing {

class RedisSite final : public Site {
 public:
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    stores::RedisTuning tuning;
    tuning.now = [now = now_] { return machine::Instant(Duration(now->load())); };
    return stores::make_redis_store_for_test(*port::StoreUrl::parse(server_.url()), context,
                                             std::move(tuning));
  }
  void pass(Duration time) override { *now_ += time.count(); }
  void restart() override { server_.restart(support::Memory::kKept); }
  machine::Instant now() const { return machine::Instant(Duration(now_->load())); }

 private:
  support::RedisServer server_;
  std::shared_ptr<std::atomic<std::int64_t>> now_ =
      std::make_shared<std::atomic<std::int64_t>>(1'000'000'000);
};

}  // namespace holdfast::testing
