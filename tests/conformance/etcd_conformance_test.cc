#include <algorithm>
#include <atomic>

#include "src/stores/etcd/etcd_store.h"
#include "tests/conformance/harness.h"
#include "tests/support/etcd_server.h"

namespace holdfast::testing {
namespace {

// One server for all; each site has a prefix of its own.
support::EtcdCluster& server() {
  static support::EtcdCluster one;
  return one;
}

class EtcdSite final : public Site {
 public:
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    const std::string url = server().url("/" + prefix_ + "?session=1s");
    return stores::make_etcd_store(*port::StoreUrl::parse(url), context);
  }
  // Nothing in it depends on how much time goes by.
  void pass(Duration time) override {
    std::this_thread::sleep_for(std::min<Duration>(time, std::chrono::milliseconds(20)));
  }
  void restart() override {
    server().terminate();
    server().start();
  }

 private:
  static std::string next_prefix() {
    static std::atomic<int> last{0};
    return "site-" + std::to_string(++last);
  }
  const std::string prefix_ = next_prefix();
};

std::unique_ptr<Site> make_site() { return std::make_unique<EtcdSite>(); }

const StoreUnderTest kEtcd{&make_site, &make_site, &support::EtcdCluster::unavailable};

}  // namespace

HOLDFAST_INSTANTIATE_CONFORMANCE(Etcd, kEtcd);

}  // namespace holdfast::testing
