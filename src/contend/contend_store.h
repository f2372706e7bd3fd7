// A store made of a backend: the port on top of contenders.
//
// Guarantee: as src/port/store.h says, given that the backend keeps what backend.h asks of it.
// Not guaranteed: a lease that outlives its client (Guarantees::bound_to_client).
// Thread-safety: as the port's. All work is done on the loop.
// Ownership: the store owns the backend.
// Time: leases are of the session; a shorter ttl than `min_ttl` is refused with kInvalidArgument.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "holdfast/guarantees.h"
#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/contend/backend.h"
#include "src/port/registry.h"

namespace holdfast::contend {

// The engine gives these by itself on every backend; the backend fills in the rest, and takes back
// what it cannot give (a foreign recipe has no shared locks, say).
Guarantees guarantees();

// How a new store asks its servers what they are.
struct FirstContact {
  base::BootInstant until{};
  // With this answer no store is made; after any other that is no answer it promises less.
  std::optional<Errc> fatal{};
  // Asked when nothing was heard for a moment: an error ends the attempt.
  std::function<Result<void>()> when_silent{};
};

// Errors: `fatal`, those of `when_silent`.
Result<std::unique_ptr<port::Store>> make_store(std::unique_ptr<Backend> backend,
                                                const port::StoreContext& context,
                                                machine::Duration min_ttl,
                                                const FirstContact& contact);

}  // namespace holdfast::contend
