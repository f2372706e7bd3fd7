// The store on one Redis server (7.0 or later, or Valkey). docs/stores/redis.md says how it works
// and what it guarantees, and docs/design/0005-redis-store.md explains why.
#pragma once

#include <functional>
#include <memory>

#include "holdfast/result.h"
#include "src/machine/types.h"
#include "src/port/registry.h"
#include "src/port/store.h"

namespace holdfast::stores {

// Settings for tests only.
struct RedisTuning {
  std::function<machine::Instant()> now{};  // Instead of the server's time.
};

// Connects. Errors: kInvalidArgument, kUnavailable, kPermissionDenied.
Result<std::unique_ptr<port::Store>> make_redis_store(port::StoreUrl url,
                                                      const port::StoreContext& context);

Result<std::unique_ptr<port::Store>> make_redis_store_for_test(port::StoreUrl url,
                                                               const port::StoreContext& context,
                                                               RedisTuning tuning);

// For a benchmark alone: whether waiting threads read their pushes themselves (they do). It
// applies to the stores of this process, and is set before they are made.
void use_push_reader(bool use) noexcept;

}  // namespace holdfast::stores
