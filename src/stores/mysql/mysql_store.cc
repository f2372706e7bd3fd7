#include "src/stores/mysql/mysql_store.h"

#include <memory>
#include <utility>

#include "src/port/records_job.h"
#include "src/port/url_options.h"
#include "src/sql/records.h"
#include "src/stores/mysql/connection.h"
#include "src/stores/mysql/counter.h"
#include "src/stores/mysql/dialect.h"
#include "src/stores/mysql/recipes.h"
#include "src/stores/mysql/url.h"

namespace holdfast::stores {

Result<std::unique_ptr<port::Store>> make_mysql_store(port::StoreUrl url,
                                                      const port::StoreContext& context) {
  return make_mysql_store_for_test(std::move(url), context, {});
}

Result<std::unique_ptr<port::Store>> make_mysql_store_for_test(port::StoreUrl url,
                                                               const port::StoreContext& context,
                                                               sql::Tuning tuning) {
  const auto recipe = mysql::take_recipe_options(url);
  if (!recipe) return recipe.error();
  const auto address = mysql::parse_mysql_url(url);
  if (!address) return address.error();
  if (auto known = port::reject_unknown_options(url, "mysql"); !known) return known.error();
  // A counter is no matter of recipes.
  if (context.counter != nullptr) return mysql::make_counter(*address, context);
  if (recipe->recipe != mysql::Recipe::kNone) {
    if (!address->create) {
      return Error(Errc::kInvalidArgument,
                   "mysql URL: create=no is of no use with recipe=: see table=");
    }
    if (context.records != nullptr) return sql::recipe_keeps_no_records("mysql");
    if (context.schema != nullptr) return std::unique_ptr<port::Store>();
    return mysql::make_recipe_store(*address, *recipe, context);
  }
  if (context.records != nullptr) {
    return port::answer(
        *context.records,
        sql::open_records(std::make_unique<mysql::MysqlDialect>(*address),
                          mysql::link_settings(*address, "holdfast-myrec", /*keep=*/false),
                          address->create, context.open_by));
  }
  sql::StoreParts parts;
  parts.may_create = address->create;
  parts.dialect = std::make_unique<mysql::MysqlDialect>(*address);
  parts.requests = mysql::link_settings(*address, "holdfast-my", /*keep=*/true);
  parts.renewals = mysql::link_settings(*address, "holdfast-myrenew", /*keep=*/false);
  return sql::open_store(std::move(parts), context, std::move(tuning));
}

}  // namespace holdfast::stores
