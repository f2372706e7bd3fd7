// Locks in one of several stores, the next one when it is away. See docs/stores/failover.md for the
// URL, options and guarantees, and docs/design/0053-failover.md.
//
// Guarantee, thread-safety, time, errors: as src/port/store.h and docs/stores/failover.md say.
// Ownership: the loop and the listener outlive the store.
#pragma once

#include <memory>
#include <vector>

#include "holdfast/result.h"
#include "src/port/registry.h"

namespace holdfast::stores {

// Settings for tests alone.
struct FailoverTuning {
  std::vector<port::StoreFactory> chain{};  // Instead of those that the URLs name.
};

// Connects to the last store of the chain; another may be away.
// Errors: kInvalidArgument (URL), and the last store's.
Result<std::unique_ptr<port::Store>> make_failover_store(port::StoreUrl url,
                                                         const port::StoreContext& context);

Result<std::unique_ptr<port::Store>> make_failover_store_for_test(port::StoreUrl url,
                                                                  const port::StoreContext& context,
                                                                  FailoverTuning tuning);

}  // namespace holdfast::stores
