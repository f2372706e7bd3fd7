#include "src/sql/schema.h"

#include <string>

namespace holdfast::sql {

Result<StoreSchema> prepare_schema(const Dialect& dialect, const Dialect::Ask& ask,
                                   bool may_create) {
  StoreSchema schema{.place = dialect.tables() + " of " + dialect.address()};
  auto found = dialect.find_format(ask);
  if (!found) return found.error();
  if (!*found) {
    if (!may_create) {
      return Error(Errc::kCorruptState,
                   dialect.address() + ": there are no tables in " + dialect.tables() +
                       ", or this user may not see them, and create=no forbids to make them: "
                       "let a user with that permission run 'holdfast store init'");
    }
    if (const auto made = ask(dialect.creation()); !made) {
      const Error& why = made.error();
      if (why.code() != Errc::kPermissionDenied) return why;
      return Error(why.code(), why.message() +
                                   ", or let an administrator run 'holdfast store init', or what "
                                   "'holdfast store init --print-sql' prints");
    }
    schema.created = true;
    found = dialect.find_format(ask);
    if (!found) return found.error();
  }
  if (*found != dialect.format()) {
    return Error(Errc::kVersionMismatch,
                 dialect.address() + ": the tables in " + dialect.tables() +
                     " have another format than this version of Holdfast: upgrade it, or name "
                     "another place for the tables in the URL");
  }
  schema.format = dialect.format();
  return schema;
}

}  // namespace holdfast::sql
