// A thousand waiters on one name: what the server has to say about a release stays the same.
#include "src/stores/zookeeper/zookeeper_store.h"
#include "tests/conformance/herd.h"
#include "tests/support/zookeeper_server.h"

namespace holdfast::testing {
namespace {

class HerdSite final : public Site {
 public:
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    return stores::make_zookeeper_store(*port::StoreUrl::parse(server_.url("?session=120s")),
                                        context);
  }
  void pass(Duration) override {}
  std::int64_t packets_sent() const { return server_.figure("zk_packets_sent"); }

 private:
  support::ZookeeperServer server_;
};

TEST(ZookeeperHerd, WakeUpsPerReleaseDoNotGrowWithTheQueue) {
  HOLDFAST_NEEDS_ZOOKEEPER();
  HerdSite site;
  Herd herd(site, /*clients=*/10, [&] { return site.packets_sent(); });
  herd.grow_to(20);
  const std::int64_t few = herd.cost_of_a_release();
  herd.grow_to(100);
  herd.grow_to(1000);
  const std::int64_t many = herd.cost_of_a_release();
  Herd::note("packets_with_20_waiters", few);
  Herd::note("packets_with_1000_waiters", many);
  // The release, the event, what the next one reads; beside them keepalives and these questions.
  EXPECT_LE(few, 12);
  EXPECT_LE(many, 12) << "beside " << few << " with twenty waiters";
}

}  // namespace
}  // namespace holdfast::testing
