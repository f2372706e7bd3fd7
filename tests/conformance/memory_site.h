// A memory hub whose time passes when the test says so.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "src/stores/memory/memory_store.h"
#include "tests/conformance/harness.h"

namespace holdfast::testing {

class MemorySite final : public Site {
 public:
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    return stores::make_memory_store_for_test(hub_, context);
  }
  void pass(Duration time) override { *now_ += time.count(); }
  machine::Instant now() const { return machine::Instant(Duration(now_->load())); }

 private:
  using Clock = std::atomic<std::int64_t>;
  std::shared_ptr<Clock> now_ = std::make_shared<Clock>(1'000'000);
  std::shared_ptr<stores::InProcessHub> hub_ = stores::make_memory_hub_for_test(
      {.now = [now = now_] { return machine::Instant(Duration(now->load())); }});
};

}  // namespace holdfast::testing
