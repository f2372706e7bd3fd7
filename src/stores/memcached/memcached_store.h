// The store on a memcached server (1.6 or later). docs/stores/memcached.md says how it works and
// what it promises; docs/design/0041-memcached-store.md why it is as it is.
#pragma once

#include <functional>
#include <memory>

#include "holdfast/result.h"
#include "src/machine/types.h"
#include "src/port/registry.h"
#include "src/port/store.h"

namespace holdfast::stores {

namespace memcached {
class Sightings;
}

// Settings for tests alone.
struct MemcachedTuning {
  std::function<machine::Instant()> now{};  // Instead of boot time.
  // Shared: one client has seen what any of them has.
  std::shared_ptr<memcached::Sightings> sightings{};
};

// Connects. Errors: kInvalidArgument, kUnavailable, kPermissionDenied, kVersionMismatch.
Result<std::unique_ptr<port::Store>> make_memcached_store(port::StoreUrl url,
                                                          const port::StoreContext& context);

Result<std::unique_ptr<port::Store>> make_memcached_store_for_test(
    port::StoreUrl url, const port::StoreContext& context, MemcachedTuning tuning);

}  // namespace holdfast::stores
