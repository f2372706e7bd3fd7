#include "src/stores/etcd/etcd_store.h"
#include "src/stores/redis/redis_store.h"
#include "tests/conformance/harness.h"
#include "tests/conformance/hybrid_site.h"
#include "tests/support/etcd_server.h"
#include "tests/support/redis_server.h"

namespace holdfast::testing {
namespace {

support::EtcdCluster& arbiter() {
  static support::EtcdCluster one;
  return one;
}

Result<port::StoreFactory> find(std::string_view scheme) {
  return scheme == "redis" ? &stores::make_redis_store : &stores::make_etcd_store;
}

// As the URL makes it: a Redis in front of an etcd.
class LiveHybridSite final : public Site {
 public:
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    port::StoreContext with_others = context;
    with_others.find = &find;
    port::StoreUrl url = *port::StoreUrl::parse("hybrid:");
    url.options = {{"filter", filter_.url()},
                   {"arbiter", arbiter().url("/" + place_ + "?session=5s")}};
    return stores::make_hybrid_store(std::move(url), with_others);
  }
  bool shows_waiters() const override { return false; }
  bool decides_at_once() const override { return false; }
  void pass(Duration time) override { std::this_thread::sleep_for(time); }

 private:
  static inline int last_ = 0;
  const std::string place_ = "site-" + std::to_string(++last_);
  support::RedisServer filter_;
};

std::optional<std::string> unavailable() {
  if (auto why = support::RedisServer::unavailable()) return why;
  return support::EtcdCluster::unavailable();
}

const StoreUnderTest kHybrid{[] { return std::make_unique<HybridSite>(); },
                             [] { return std::make_unique<LiveHybridSite>(); }, &unavailable};

}  // namespace

HOLDFAST_INSTANTIATE_CONFORMANCE(Hybrid, kHybrid);

}  // namespace holdfast::testing
