#include "tests/conformance/harness.h"
#include "tests/conformance/memcached_site.h"

namespace holdfast::testing {
namespace {

// As the URL makes it.
class LiveMemcachedSite final : public Site {
 public:
  LiveMemcachedSite() { memcached_server().flush_all(); }

  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    return stores::make_memcached_store(*port::StoreUrl::parse(memcached_server().url()), context);
  }
  void pass(Duration time) override { std::this_thread::sleep_for(time); }
  void restart() override {
    memcached_server().kill9();
    memcached_server().start();
  }
};

const StoreUnderTest kMemcached{[] { return std::make_unique<MemcachedSite>(); },
                                [] { return std::make_unique<LiveMemcachedSite>(); },
                                &support::MemcachedServer::unavailable};

}  // namespace

HOLDFAST_INSTANTIATE_CONFORMANCE(Memcached, kMemcached);

}  // namespace holdfast::testing
