#include "src/stores/postgres/postgres_store.h"

#include <atomic>
#include <memory>
#include <utility>

#include "src/port/records_job.h"
#include "src/port/url_options.h"
#include "src/sql/records.h"
#include "src/stores/postgres/connection.h"
#include "src/stores/postgres/counter.h"
#include "src/stores/postgres/dialect.h"
#include "src/stores/postgres/recipes.h"
#include "src/stores/postgres/url.h"
#include "src/stores/postgres/wakeups.h"

namespace holdfast::stores {

Result<std::unique_ptr<port::Store>> make_postgres_store(port::StoreUrl url,
                                                         const port::StoreContext& context) {
  return make_postgres_store_for_test(std::move(url), context, {});
}

Result<std::unique_ptr<port::Store>> make_postgres_store_for_test(port::StoreUrl url,
                                                                  const port::StoreContext& context,
                                                                  sql::Tuning tuning) {
  const auto recipe = postgres::take_recipe_options(url);
  if (!recipe) return recipe.error();
  const auto address = postgres::parse_postgres_url(url);
  if (!address) return address.error();
  if (auto known = port::reject_unknown_options(url, "postgres"); !known) return known.error();
  const auto prepares = std::make_shared<std::atomic<bool>>(false);
  const auto link = [&](const char* thread_name, bool keep) {
    return sql::Link::Settings{[address = *address, prepares] {
                                 return std::make_unique<postgres::PostgresConnection>(address,
                                                                                       prepares);
                               },
                               address->connect_timeout, thread_name, keep};
  };
  // A counter is no matter of recipes.
  if (context.counter != nullptr) {
    return postgres::make_counter(*address, link("holdfast-pgcount", /*keep=*/false), context);
  }
  if (recipe->wanted) {
    if (!address->create) {
      return Error(Errc::kInvalidArgument,
                   "postgres URL: create=no is of no use with recipe=: it has no tables");
    }
    if (context.records != nullptr) return sql::recipe_keeps_no_records("postgres");
    if (context.schema != nullptr) return std::unique_ptr<port::Store>();
    return postgres::make_recipe_store(*address, *recipe, context);
  }
  if (context.records != nullptr) {
    return port::answer(*context.records,
                        sql::open_records(std::make_unique<postgres::PostgresDialect>(*address),
                                          link("holdfast-pgrec", /*keep=*/false), address->create,
                                          context.open_by));
  }
  sql::StoreParts parts;
  parts.may_create = address->create;
  parts.dialect = std::make_unique<postgres::PostgresDialect>(*address);
  parts.requests = link("holdfast-pg", /*keep=*/true);
  parts.renewals = link("holdfast-pgrenew", /*keep=*/false);
  parts.wake_ups = [&](sql::Engine& engine) {
    return std::make_unique<postgres::Wakeups>(link("holdfast-pghear", /*keep=*/true), context,
                                               engine, prepares);
  };
  return sql::open_store(std::move(parts), context, std::move(tuning));
}

}  // namespace holdfast::stores
