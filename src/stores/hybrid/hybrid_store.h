// Locks that an arbiter store decides and a filter store keeps most contenders away from. See
// docs/stores/hybrid.md for URL, options and guarantees, and docs/design/0051-hybrid.md.
//
// Guarantee, thread-safety, time, errors: as src/port/store.h and docs/stores/hybrid.md say.
// Ownership: the loop and the listener outlive the store.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "holdfast/result.h"
#include "src/machine/types.h"
#include "src/port/registry.h"

namespace holdfast::stores {

// Settings for tests alone.
struct HybridTuning {
  std::function<machine::Instant()> now{};  // Instead of boot time, for waiters' leases.
  port::StoreFactory filter = nullptr;      // Instead of those that the URL names.
  port::StoreFactory arbiter = nullptr;
};

// Connects to both; the filter may be away. Errors: kInvalidArgument (URL), and the arbiter's.
Result<std::unique_ptr<port::Store>> make_hybrid_store(port::StoreUrl url,
                                                       const port::StoreContext& context);

Result<std::unique_ptr<port::Store>> make_hybrid_store_for_test(port::StoreUrl url,
                                                                const port::StoreContext& context,
                                                                HybridTuning tuning);

}  // namespace holdfast::stores
