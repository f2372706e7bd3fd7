// Locks as other programs take them in Redis: recipe= in the URL. The reasons are in
// docs/design/0048-redis-recipes.md.
//
//   recipe=redisson   the hash of Redisson's RLock: field "UUID:number" -> count
//   recipe=setnx      a string key by SET key value NX PX, as most small libraries have it
//
// Guarantee: whoever locks the same key of one server by the same form is excluded.
// Not guaranteed: fencing, an order among clients. Errors: kInvalidArgument.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "holdfast/guarantees.h"
#include "holdfast/result.h"
#include "src/port/store_url.h"
#include "src/port/url_options.h"
#include "src/stores/redis/url.h"

namespace holdfast::stores::redis {

inline constexpr port::UrlOption kRecipeOptions[] = {
    port::word_option("recipe", "redisson|setnx",
                      "share locks with programs that use one of these forms"),
    port::time_option("session", "30s", "with recipe=: the length of all leases",
                      std::chrono::seconds(1), std::chrono::hours(24)),
    port::text_option("prefix", "with recipe=: what keys begin with, before the lock's name"),
};

enum class Recipe : std::uint8_t { kNone, kRedisson, kSetNx };

struct RecipeOptions {
  Recipe recipe = Recipe::kNone;
  std::chrono::milliseconds session{30'000};
  std::string prefix;
};

// Takes the options above from `url`.
Result<RecipeOptions> take_recipe_options(port::StoreUrl& url);

// Whether the rest of the URL goes with it.
Result<void> check_recipe(const RecipeOptions& options, const RedisAddress& address);

Guarantees recipe_guarantees(const RecipeOptions& options);

}  // namespace holdfast::stores::redis
