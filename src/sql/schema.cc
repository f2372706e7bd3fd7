#include "src/sql/schema.h"

#include <string>

namespace holdfast::sql {
namespace {

Error forbidden(const Dialect& dialect) {
  return {Errc::kCorruptState,
          dialect.address() + ": there are no tables in " + dialect.tables() +
              ", or this user may not see them, and create=no forbids to make them: "
              "let a user with that permission run 'holdfast store init'"};
}

Result<void> check_format(const Dialect& dialect, const Dialect::FoundTables& found) {
  if (!found.format || *found.format == dialect.format()) return {};
  return Error(Errc::kVersionMismatch,
               dialect.address() + ": the tables in " + dialect.tables() +
                   " have another format than this version of Holdfast: upgrade it, or name "
                   "another place for the tables in the URL");
}

Result<void> create(const Dialect& dialect, const Dialect::Ask& ask) {
  const auto made = ask(dialect.creation());
  if (made) return {};
  const Error& why = made.error();
  if (why.code() != Errc::kPermissionDenied) return why;
  return Error(why.code(), why.message() +
                               ", or let an administrator run 'holdfast store init', or what "
                               "'holdfast store init --print-sql' prints");
}

}  // namespace

Result<StoreSchema> prepare_schema(const Dialect& dialect, const Dialect::Ask& ask,
                                   Making making) {
  StoreSchema schema{.place = dialect.tables() + " of " + dialect.address()};
  auto found = dialect.find_tables(ask);
  if (!found) return found.error();
  if (auto same = check_format(dialect, *found); !same) return same.error();
  if (!found->format || (making == Making::kMissing && !found->complete)) {
    if (making == Making::kForbidden) return forbidden(dialect);
    if (auto made = create(dialect, ask); !made) return made.error();
    schema.created = true;
    found = dialect.find_tables(ask);  // Somebody else may have made them, in another format.
    if (!found) return found.error();
    if (auto same = check_format(dialect, *found); !same) return same.error();
  }
  schema.format = dialect.format();
  return schema;
}

}  // namespace holdfast::sql
