// The place of recipes on one Redis server. docs/design/0048-redis-recipes.md has the reasons.
//
// Thread-safety, errors: as recipes::Backend. Ownership: the loop of `context` outlives it.
#pragma once

#include <memory>
#include <string>

#include "src/machine/types.h"
#include "src/port/registry.h"
#include "src/recipes/backend.h"
#include "src/stores/redis/recipes/options.h"
#include "src/stores/redis/transport/remote.h"

namespace holdfast::stores::redis {

std::shared_ptr<recipes::Backend> make_recipe_backend(RemotePtr remote,
                                                      const RecipeOptions& options,
                                                      const port::StoreContext& context);

// The mark of an acquisition in the form's key: Redisson's field, or the string's value.
std::string mark_of(Recipe recipe, machine::AcquisitionId id);

// Where Redisson says that the lock of `key` may be free.
std::string redisson_channel(const std::string& key);

}  // namespace holdfast::stores::redis
