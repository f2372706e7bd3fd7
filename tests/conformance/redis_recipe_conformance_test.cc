// The conformance suite on the recipes of Redis, as far as forms of other programs can pass it.
#include <atomic>
#include <memory>
#include <string>

#include "src/stores/redis/redis_store.h"
#include "tests/conformance/harness.h"
#include "tests/support/redis_server.h"

namespace holdfast::testing {
namespace {

support::RedisServer& server() {
  static support::RedisServer one({.appendonly = true});
  return one;
}

template <const char* kForm>
class RecipeSite final : public Site {
 public:
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    return stores::make_redis_store(*port::StoreUrl::parse(url_), context);
  }
  void pass(Duration time) override { std::this_thread::sleep_for(std::min<Duration>(time, 20ms)); }
  void restart() override {
    server().kill9();
    server().start();
  }
  bool own_form() const override { return false; }

 private:
  static inline std::atomic<int> last_{0};
  const std::string url_ = server().url(
      {.query = {{"recipe", kForm}, {"prefix", kForm + std::to_string(++last_) + "/"}}});
};

constexpr char kRedisson[] = "redisson";
constexpr char kSetNx[] = "setnx";

template <const char* kForm>
const StoreUnderTest kRecipe{[] { return std::make_unique<RecipeSite<kForm>>(); },
                             [] { return std::make_unique<RecipeSite<kForm>>(); },
                             &support::RedisServer::unavailable};

}  // namespace

HOLDFAST_INSTANTIATE_CONFORMANCE(RedisRedisson, kRecipe<kRedisson>);
HOLDFAST_INSTANTIATE_CONFORMANCE(RedisSetNx, kRecipe<kSetNx>);

}  // namespace holdfast::testing
