// The examination of a PostgreSQL server for `holdfast doctor`.
#include <string>

#include "src/port/examination.h"
#include "src/stores/postgres/dialect.h"

namespace holdfast::stores::postgres {
namespace {

constexpr char kQuestion[] = R"sql(
SELECT current_setting('server_version'), current_setting('fsync'),
  current_setting('full_page_writes'), current_setting('autovacuum'),
  current_setting('synchronous_standby_names') <> '',
  coalesce(bool_and(has_table_privilege(t, 'SELECT') AND has_table_privilege(t, 'INSERT')
    AND has_table_privilege(t, 'UPDATE') AND has_table_privilege(t, 'DELETE')), true),
  count(t) = 4
FROM unnest(ARRAY[to_regclass('@locks'), to_regclass('@tickets'), to_regclass('@tombstones'),
  to_regclass('@extras')]) AS t)sql";

}  // namespace

sql::Request PostgresDialect::examination() const { return {statements_.of(kQuestion)}; }

port::Findings PostgresDialect::judge(const sql::Rows& rows, bool listening) const {
  using port::add;
  port::Findings findings;
  const auto on = [&](int column) { return rows.text(0, column) == "on"; };
  add(findings, Severity::kOk, "version", "PostgreSQL " + std::string(rows.text(0, 0)));
  if (!on(1) || !on(2)) {
    add(findings, Severity::kProblem, "durability",
        std::string(on(1) ? "full_page_writes" : "fsync") +
            " is off: after a crash of the server's machine the locks may be damaged or older",
        "set it to on");
  } else {
    add(findings, Severity::kOk, "durability", "answered changes are on the server's disk");
  }
  if (!on(3)) {
    add(findings, Severity::kWarning, "autovacuum", "off: the tables of the locks grow",
        "set autovacuum to on");
  }
  if (rows.text(0, 4) != "t") {
    add(findings, Severity::kWarning, "replication",
        "no synchronous standby: a promoted replica forgets the newest grants",
        "set synchronous_standby_names, or rely on fencing tokens");
  }
  if (rows.text(0, 6) != "t") {
    add(findings, Severity::kProblem, "tables", "a table is missing in " + tables(),
        "run 'holdfast store init'; what stood in that table is lost");
  }
  if (rows.text(0, 5) != "t") {
    add(findings, Severity::kProblem, "permissions", "the user may not change the tables",
        "grant SELECT, INSERT, UPDATE and DELETE on all tables of the schema");
  }
  if (listening) {
    add(findings, Severity::kOk, "wake-ups", "notifications arrive");
  } else {
    add(findings, Severity::kWarning, "wake-ups",
        "notifications do not arrive (a transaction pooler?): waiters poll",
        "name the server itself, or let the pooler keep sessions");
  }
  return findings;
}

}  // namespace holdfast::stores::postgres
