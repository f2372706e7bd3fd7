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
  // The release, the event, what the next one reads; beside them keepalives and these questions.
  herd.expect_constant_cost("packets", 12);
}

}  // namespace
}  // namespace holdfast::testing
