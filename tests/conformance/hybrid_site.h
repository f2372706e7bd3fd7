// A hybrid store of two memory hubs whose time passes when the test says so.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "src/stores/hybrid/hybrid_store.h"
#include "src/stores/memory/memory_store.h"
#include "tests/conformance/harness.h"

namespace holdfast::testing {

class HybridSite final : public Site {
 public:
  HybridSite() { current_ = this; }
  ~HybridSite() override { current_ = nullptr; }

  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    stores::HybridTuning tuning;
    tuning.now = [now = now_] { return machine::Instant(Duration(now->load())); };
    tuning.filter = [](port::StoreUrl, const port::StoreContext& how) {
      return Result(stores::make_memory_store_for_test(current_->filter_, how));
    };
    tuning.arbiter = [](port::StoreUrl, const port::StoreContext& how) {
      return Result(stores::make_memory_store_for_test(current_->arbiter_, how));
    };
    // The arbiter's time does not pass by itself, so its answers are never old.
    return stores::make_hybrid_store_for_test(
        *port::StoreUrl::parse("hybrid:?filter=memory:f&arbiter=memory:a&recheck=0s"), context,
        std::move(tuning));
  }
  bool shows_waiters() const override { return false; }
  bool decides_at_once() const override { return false; }
  void pass(Duration time) override { *now_ += time.count(); }

 private:
  using Clock = std::atomic<std::int64_t>;
  std::shared_ptr<stores::InProcessHub> make_hub() {
    return stores::make_memory_hub_for_test(
        {.now = [now = now_] { return machine::Instant(Duration(now->load())); }});
  }

  static inline HybridSite* current_ = nullptr;  // One at a time.
  std::shared_ptr<Clock> now_ = std::make_shared<Clock>(1'000'000);
  std::shared_ptr<stores::InProcessHub> filter_ = make_hub();
  std::shared_ptr<stores::InProcessHub> arbiter_ = make_hub();
};

}  // namespace holdfast::testing
