// `store init`: makes the tables of a store that has some, or prints their SQL.

#include <string>

#include "holdfast/stores.h"
#include "src/cli/commands.h"
#include "src/cli/exit_codes.h"
#include "src/cli/options/settings.h"
#include "src/cli/text/json.h"
#include "src/cli/text/output.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

std::string nothing_to_make(const Settings& settings) {
  const StoreKind* const kind = store_of_url(settings.store.url);
  const std::string name = kind == nullptr ? "this" : std::string(kind->name);
  const bool by_options = kind != nullptr && kind->has_schema;  // recipe=
  return "the " + name + " store has no tables of its own" +
         (by_options ? " with the options of this URL" : "") + ": there is nothing to make";
}

int print_sql(const Settings& settings, bool quiet) {
  const auto sql = store_schema_sql(settings.store.url);
  if (!sql) return fail(sql.error(), settings.shown_store);
  if (*sql) {
    print(**sql);
  } else if (!quiet) {
    complain(nothing_to_make(settings));  // stdout may go to a server.
  }
  return flush_output() ? 0 : kExitError;
}

}  // namespace

int store_command(const StoreOptions& options) {
  Settings settings;
  if (auto resolved = resolve(options.common, settings); !resolved) {
    return fail(resolved.error(), "");
  }
  if (options.print_sql) return print_sql(settings, options.common.quiet);
  const auto made = make_store_schema(settings.store.url);
  if (!made) return fail(made.error(), settings.shown_store);
  if (!*made) {
    return answer(options.common, {{"place", nullptr}, {"format", nullptr}, {"created", false}},
                  nothing_to_make(settings) + "\n");
  }
  const StoreSchema& schema = **made;
  return answer(
      options.common,
      {{"place", schema.place}, {"format", schema.format}, {"created", schema.created}},
      std::string(schema.created ? "made" : "found") + " " + printable(schema.place) + ", format " +
          std::to_string(schema.format) + "\n");
}

}  // namespace holdfast::cli
