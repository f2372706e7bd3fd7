// The conformance suite on a cluster of three. A restart is that of every server, with its data.
#include "src/stores/redis/redis_store.h"
#include "tests/conformance/harness.h"
#include "tests/support/redis_cluster.h"

namespace holdfast::testing {
namespace {

// One for all cases: it takes seconds to form.
support::RedisCluster& nodes() {
  static support::RedisCluster cluster;
  return cluster;
}

class ClusterSite final : public Site {
 public:
  explicit ClusterSite(bool real_time = false) : real_time_(real_time) {
    for (std::size_t i = 0; i < nodes().size(); ++i) {
      // A request that a closed client has left on its way must not take a lock of this case.
      nodes().node(i).client_kill("normal");
      nodes().node(i).flushall();
    }
  }

  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    stores::RedisTuning tuning;
    if (!real_time_) {
      tuning.now = [now = now_] { return machine::Instant(Duration(now->load())); };
    }
    return stores::make_redis_store_for_test(*port::StoreUrl::parse(nodes().url()), context,
                                             std::move(tuning));
  }
  void pass(Duration time) override {
    real_time_ ? std::this_thread::sleep_for(time) : static_cast<void>(*now_ += time.count());
  }
  void restart() override {
    for (std::size_t i = 0; i < nodes().size(); ++i) {
      nodes().node(i).restart(support::Memory::kKept);
    }
    nodes().await_whole();
  }

 private:
  const bool real_time_;
  std::shared_ptr<std::atomic<std::int64_t>> now_ =
      std::make_shared<std::atomic<std::int64_t>>(1'000'000'000);
};

const StoreUnderTest kCluster{[] { return std::make_unique<ClusterSite>(); },
                              [] { return std::make_unique<ClusterSite>(true); },
                              &support::RedisServer::unavailable};

}  // namespace

HOLDFAST_INSTANTIATE_CONFORMANCE(RedisCluster, kCluster);

}  // namespace holdfast::testing
