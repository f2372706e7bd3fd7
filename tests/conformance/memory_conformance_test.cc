#include "src/stores/memory/memory_store.h"
#include "tests/conformance/harness.h"

namespace holdfast::testing {
namespace {

class MemorySite final : public Site {
 public:
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    return stores::make_memory_store_for_test(hub_, context);
  }
  void pass(Duration time) override { *now_ += time.count(); }

 private:
  using Clock = std::atomic<std::int64_t>;
  std::shared_ptr<Clock> now_ = std::make_shared<Clock>(1'000'000);
  std::shared_ptr<stores::MemoryHub> hub_ = stores::make_memory_hub_for_test(
      {.now = [now = now_] { return machine::Instant(Duration(now->load())); }});
};

// As the URL makes it: the hub goes with its last client.
class LiveMemorySite final : public Site {
 public:
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    auto url = port::StoreUrl::parse("memory:conformance");
    if (!url) return url.error();
    return stores::make_memory_store(*url, context);
  }
  void pass(Duration time) override { std::this_thread::sleep_for(time); }
};

const StoreUnderTest kMemory{[] { return std::make_unique<MemorySite>(); },
                             [] { return std::make_unique<LiveMemorySite>(); }};

}  // namespace

HOLDFAST_INSTANTIATE_CONFORMANCE(Memory, kMemory);

}  // namespace holdfast::testing
