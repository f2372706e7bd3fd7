// A thousand waiters on one name: what the server has to say about a release stays the same.
#include <thread>

#include "src/stores/etcd/etcd_store.h"
#include "tests/conformance/herd.h"
#include "tests/support/etcd_server.h"

namespace holdfast::testing {
namespace {

class HerdSite final : public Site {
 public:
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    return stores::make_etcd_store(*port::StoreUrl::parse(server_.url("?session=120s")), context);
  }
  void pass(Duration) override {}
  // Answers and events, of all its services.
  std::int64_t messages_sent() const {
    return static_cast<std::int64_t>(server_.metric("grpc_server_msg_sent_total"));
  }

 private:
  support::EtcdCluster server_;
};

TEST(EtcdHerd, WakeUpsPerReleaseDoNotGrowWithTheQueue) {
  HOLDFAST_NEEDS_ETCD();
  HerdSite site;
  Herd herd(site, /*clients=*/10, [&] { return site.messages_sent(); });
  // A waiter reads again twice within 45 ms; nothing is said for longer than that.
  herd.settle_by([&] {
    std::int64_t seen = -1;
    for (int tries = 0; tries < 100 && seen != site.messages_sent(); ++tries) {
      seen = site.messages_sent();
      std::this_thread::sleep_for(100ms);
    }
  });
  // The release, the event, what the next one reads, the end of its watch; beside them keepalives.
  herd.expect_constant_cost("messages", 10);
}

}  // namespace
}  // namespace holdfast::testing
