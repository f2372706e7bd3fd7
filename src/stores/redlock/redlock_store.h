// The store on a majority of independent Redis servers. docs/stores/redlock.md says how it works
// and what it guarantees, and docs/design/0049-redlock.md explains why.
#pragma once

#include <functional>
#include <memory>

#include "holdfast/result.h"
#include "src/machine/types.h"
#include "src/port/registry.h"
#include "src/port/store.h"

namespace holdfast::stores {

// Settings for tests alone.
struct RedlockTuning {
  std::function<machine::Instant()> now{};  // Instead of the nodes' times.
};

// Connects. Errors: kInvalidArgument (also: a node of another cluster, a node named twice),
// kUnavailable, kPermissionDenied.
Result<std::unique_ptr<port::Store>> make_redlock_store(port::StoreUrl url,
                                                        const port::StoreContext& context);

Result<std::unique_ptr<port::Store>> make_redlock_store_for_test(port::StoreUrl url,
                                                                 const port::StoreContext& context,
                                                                 RedlockTuning tuning);

}  // namespace holdfast::stores
