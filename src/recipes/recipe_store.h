// The store of a recipe: exclusive locks at a Backend, and a refusal by name of everything else.
//
// Thread-safety, ownership, errors: as port::Store says. Time: every lease has the length
// Guarantees::min_ttl; a shorter ttl is refused.
#pragma once

#include <memory>
#include <string>

#include "src/port/registry.h"
#include "src/port/store.h"
#include "src/recipes/backend.h"

namespace holdfast::recipes {

// All recipes have exclusive leases that are bound to their client, and nothing else. Each lease is
// `session` long.
Guarantees guarantees(std::string store, std::string scope, std::chrono::milliseconds session);

// Connects. Errors: what Backend::start() says.
Result<std::unique_ptr<port::Store>> make_store(std::shared_ptr<Backend> backend,
                                                const port::StoreContext& context);

}  // namespace holdfast::recipes
