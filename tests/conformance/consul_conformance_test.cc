#include <algorithm>
#include <atomic>

#include "src/stores/consul/consul_store.h"
#include "tests/conformance/harness.h"
#include "tests/support/consul_server.h"

namespace holdfast::testing {
namespace {

// One server for all: it takes two seconds to start. Each site has a prefix of its own.
support::ConsulServer& server() {
  static support::ConsulServer one;
  return one;
}

class ConsulSite final : public Site {
 public:
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    const std::string url =
        "consul://127.0.0.1:" + std::to_string(server().port()) + "/" + prefix_ + "?session=5s";
    return stores::make_consul_store(*port::StoreUrl::parse(url), context);
  }
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

std::unique_ptr<Site> make_site() { return std::make_unique<ConsulSite>(); }

const StoreUnderTest kConsul{&make_site, &make_site, &support::ConsulServer::unavailable};

}  // namespace

HOLDFAST_INSTANTIATE_CONFORMANCE(Consul, kConsul);

}  // namespace holdfast::testing
