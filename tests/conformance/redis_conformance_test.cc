#include "tests/conformance/harness.h"
#include "tests/conformance/redis_site.h"

namespace holdfast::testing {
namespace {

// As the URL makes it.
class LiveRedisSite final : public Site {
 public:
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    return stores::make_redis_store(*port::StoreUrl::parse(server_.url()), context);
  }
  void pass(Duration time) override { std::this_thread::sleep_for(time); }
  void restart() override { server_.restart(support::Memory::kLost); }

 private:
  support::RedisServer server_;
};

const StoreUnderTest kRedis{[] { return std::make_unique<RedisSite>(); },
                            [] { return std::make_unique<LiveRedisSite>(); },
                            &support::RedisServer::unavailable};

}  // namespace

HOLDFAST_INSTANTIATE_CONFORMANCE(Redis, kRedis);

}  // namespace holdfast::testing
