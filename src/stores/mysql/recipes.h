// Locks as other programs take them in MySQL or MariaDB: recipe= in the URL.
//
//   recipe=get-lock     GET_LOCK(name, ...): a lock of the session
//   recipe=for-update   SELECT ... FOR UPDATE of the lock's row, in a transaction that stays open
//   recipe=row          a row of distributed_lock(lock_name, lock_value, expire_time, create_time)
//
// Guarantee: whoever locks the same name by the same form is excluded.
// Not guaranteed: fencing, an order among clients; that a program which compares expire_time with
// its own clock waits for the end of a lease.
// Errors: kInvalidArgument (options); kUnsupported: a pooler; kCorruptState: a table that does not
// serve.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "holdfast/guarantees.h"
#include "holdfast/result.h"
#include "src/port/examination.h"
#include "src/port/registry.h"
#include "src/port/store.h"
#include "src/port/url_options.h"
#include "src/sql/link.h"
#include "src/stores/mysql/url.h"

namespace holdfast::stores::mysql {

inline constexpr port::UrlOption kRecipeOptions[] = {
    port::word_option("recipe", "get-lock|for-update|row",
                      "share locks with programs that use one of these forms"),
    port::time_option("session", "15s", "with recipe=: the length of all leases",
                      std::chrono::seconds(1), std::chrono::hours(24)),
    port::text_option("table",
                      "with recipe=row (default: distributed_lock) and recipe=for-update "
                      "(default: locked_row)"),
    port::number_option("connections", "8", "with recipe=for-update: the most locks of one client",
                        1000),
    port::time_option("sweep", "1m", "with recipe=row: how often expired rows are deleted",
                      std::chrono::seconds(1), std::chrono::hours(24)),
};

enum class Recipe : std::uint8_t { kNone, kGetLock, kForUpdate, kRow };

struct RecipeOptions {
  Recipe recipe = Recipe::kNone;
  std::chrono::milliseconds session{15'000};
  std::string table;
  std::uint32_t connections = 8;
  std::chrono::milliseconds sweep{60'000};
};

// Takes the options above from `url`.
Result<RecipeOptions> take_recipe_options(port::StoreUrl& url);

Guarantees recipe_guarantees(const RecipeOptions& options);
// The column lock_name of a new table compares names by their bytes.
inline constexpr char kNameColumn[] =
    "VARCHAR(256) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */"
    " /*!80017 COLLATE utf8mb4_0900_bin */ NOT NULL";
Errc code_of(const sql::Answer& refused);
void add_recipe_finding(port::Findings& findings);

Result<std::unique_ptr<port::Store>> make_recipe_store(const MysqlAddress& address,
                                                       const RecipeOptions& options,
                                                       const port::StoreContext& context);

}  // namespace holdfast::stores::mysql
