#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "src/stores/zookeeper/zookeeper_store.h"
#include "tests/conformance/harness.h"
#include "tests/support/zookeeper_server.h"

namespace holdfast::testing {
namespace {

// One server for all: starting it costs more than the cases.
support::ZookeeperServer& server() {
  static support::ZookeeperServer the_server;
  return the_server;
}

// A chroot of its own. Nothing in it depends on how much time goes by.
class ZookeeperSite final : public Site {
 public:
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    const std::string rest = "/case" + std::to_string(number_) + "?session=4s";
    return stores::make_zookeeper_store(*port::StoreUrl::parse(server().url(rest)), context);
  }
  void pass(Duration time) override {
    std::this_thread::sleep_for(std::min<Duration>(time, std::chrono::milliseconds(20)));
  }
  void restart() override {
    server().kill9();
    server().start();
    server().await_serving();
  }

 private:
  static inline int last_ = 0;
  const int number_ = ++last_;
};

const StoreUnderTest kZookeeper{[] { return std::make_unique<ZookeeperSite>(); },
                                [] { return std::make_unique<ZookeeperSite>(); },
                                &support::ZookeeperServer::unavailable};

}  // namespace

HOLDFAST_INSTANTIATE_CONFORMANCE(Zookeeper, kZookeeper);

}  // namespace holdfast::testing
