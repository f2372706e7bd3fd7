#include "src/stores/memory/memory_store.h"
#include "tests/conformance/harness.h"
#include "tests/conformance/memory_site.h"

namespace holdfast::testing {
namespace {

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
