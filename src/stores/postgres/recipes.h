// Locks as other programs take them with PostgreSQL's own functions: recipe= in the URL.
//
//   recipe=advisory        pg_advisory_lock(key): a lock of the session
//   recipe=advisory-xact   pg_advisory_xact_lock(key): a lock of a transaction that stays open
//
// key=hashtextextended (default), key=hashtext: of the name; key=number: the name is the number.
// Guarantee: whoever locks the same key of the same database by one of these functions is excluded.
// Not guaranteed: fencing, an order among clients.
// Errors: kInvalidArgument (options); kUnsupported: a pooler, or a server before version 14.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "holdfast/guarantees.h"
#include "holdfast/result.h"
#include "src/port/registry.h"
#include "src/port/store.h"
#include "src/port/url_options.h"
#include "src/stores/postgres/url.h"

namespace holdfast::stores::postgres {

inline constexpr port::UrlOption kRecipeOptions[] = {
    port::word_option("recipe", "advisory|advisory-xact",
                      "share locks with programs that use PostgreSQL's advisory locks"),
    port::time_option("session", "15s", "with recipe=: the length of all leases",
                      std::chrono::seconds(1), std::chrono::hours(24)),
    port::word_option("key", "hashtextextended|hashtext|number",
                      "with recipe=: how a name becomes the key"),
    port::number_option("connections", "8",
                        "with recipe=advisory-xact: the most locks of one client", 1000),
};

struct RecipeOptions {
  bool wanted = false;
  bool own_transaction = false;
  std::chrono::milliseconds session{15'000};
  std::string key_function = "hashtextextended";  // Empty: key=number.
  std::uint32_t connections = 8;
};

// Takes the options above from `url`.
Result<RecipeOptions> take_recipe_options(port::StoreUrl& url);

Guarantees recipe_guarantees(const RecipeOptions& options);

Result<std::unique_ptr<port::Store>> make_recipe_store(const PostgresAddress& address,
                                                       const RecipeOptions& options,
                                                       const port::StoreContext& context);

}  // namespace holdfast::stores::postgres
