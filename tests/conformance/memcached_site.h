// Locks of their own on one memcached; time passes when the test says so.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "src/stores/memcached/memcached_store.h"
#include "src/stores/memcached/sightings.h"
#include "tests/conformance/harness.h"
#include "tests/support/memcached_server.h"

namespace holdfast::testing {

inline support::MemcachedServer& memcached_server() {
  static support::MemcachedServer one;
  return one;
}

// Each client counts a lease from when it saw it first. Here each has seen what any of them has, so
// that a lease ends for all of them when it ends for the lock machine.
class MemcachedSite final : public Site {
 public:
  MemcachedSite() { memcached_server().flush_all(); }

  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    stores::MemcachedTuning tuning;
    tuning.now = [now = now_] { return machine::Instant(Duration(now->load())); };
    tuning.sightings = sightings_;
    return stores::make_memcached_store_for_test(*port::StoreUrl::parse(memcached_server().url()),
                                                 context, std::move(tuning));
  }
  void pass(Duration time) override { *now_ += time.count(); }
  void restart() override {
    memcached_server().kill9();
    memcached_server().start();
  }
  bool tells_broken_holders() const override { return false; }
  machine::Instant now() const { return machine::Instant(Duration(now_->load())); }

 private:
  const std::shared_ptr<std::atomic<std::int64_t>> now_ =
      std::make_shared<std::atomic<std::int64_t>>(1'000'000'000);
  const std::shared_ptr<stores::memcached::Sightings> sightings_ =
      std::make_shared<stores::memcached::Sightings>();
};

}  // namespace holdfast::testing
