// A store made of a backend: the port on top of contenders.
//
// Guarantee: that of src/port/store.h, if the backend fulfils backend.h.
// Not guaranteed: a lease that outlives its client, unless the backend keeps() contenders.
// Thread-safety: that of the port. All work is done on the loop.
// Ownership: the store owns the backend.
// Time: leases last as long as the store session; a ttl below `min_ttl` is kInvalidArgument.
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

// The engine's own guarantees, on every backend. The backend adds the rest, and removes those that
// it lacks (a foreign recipe has no shared locks, for example).
Guarantees guarantees();

// How a new store finds out its servers' kind.
struct FirstContact {
  base::BootInstant until{};
  // This error ends the attempt to open. After any other error the store guarantees less.
  std::optional<Errc> fatal{};
  // Called after a moment of silence; its error ends the attempt.
  std::function<Result<void>()> when_silent{};
};

// Errors: `fatal`, and those of `when_silent`.
Result<std::unique_ptr<port::Store>> make_store(std::unique_ptr<Backend> backend,
                                                const port::StoreContext& context,
                                                machine::Duration min_ttl,
                                                const FirstContact& contact);

}  // namespace holdfast::contend
