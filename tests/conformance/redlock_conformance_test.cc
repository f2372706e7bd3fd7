#include <atomic>

#include "src/stores/redlock/redlock_store.h"
#include "tests/conformance/harness.h"
#include "tests/support/redlock_cluster.h"

namespace holdfast::testing {
namespace {

support::RedlockCluster& cluster() {
  static support::RedlockCluster one(3);
  return one;
}

// Three nodes for all cases, made empty for each. The first client that opens them after that does
// what an operator does: it says that nobody holds a lock.
class RedlockSite final : public Site {
 public:
  explicit RedlockSite(bool injected) : injected_(injected) { cluster().flush_all(); }

  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    stores::RedlockTuning tuning;
    if (injected_) tuning.now = [now = now_] { return machine::Instant(Duration(now->load())); };
    const auto url = *port::StoreUrl::parse(cluster().url("longest_ttl=24h"));
    if (!std::exchange(initialized_, true)) {
      port::SchemaJob job;
      port::StoreContext once = context;
      once.schema = &job;
      if (auto made = stores::make_redlock_store_for_test(url, once, tuning); !made) return made;
    }
    return stores::make_redlock_store_for_test(url, context, tuning);
  }
  void pass(Duration time) override {
    if (!injected_) std::this_thread::sleep_for(time);
    *now_ += time.count();
  }
  void restart() override {
    for (std::size_t at = 0; at < cluster().size(); ++at) {
      cluster().node(at).restart(support::Memory::kLost);
    }
    initialized_ = false;
    *now_ += 1'000'000;  // Tokens go on from the clocks.
  }
  bool keeps_waiters() const override { return false; }
  bool tells_broken_holders() const override { return false; }

 private:
  const bool injected_;
  bool initialized_ = false;
  const std::shared_ptr<std::atomic<std::int64_t>> now_ =
      std::make_shared<std::atomic<std::int64_t>>(1'700'000'000'000'000);
};

const StoreUnderTest kRedlock{[] { return std::make_unique<RedlockSite>(true); },
                              [] { return std::make_unique<RedlockSite>(false); },
                              &support::RedisServer::unavailable};

}  // namespace

HOLDFAST_INSTANTIATE_CONFORMANCE(Redlock, kRedlock);

}  // namespace holdfast::testing
