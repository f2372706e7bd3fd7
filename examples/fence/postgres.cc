#include "holdfast/fence/postgres.h"

#include <libpq-fe.h>

#include "examples/fence/scene.h"

namespace demo {
namespace {

using holdfast::Lease;
using holdfast::Result;

std::string run(PGconn* db, const std::string& sql) {
  PGresult* result = ::PQexec(db, sql.c_str());
  const auto status = ::PQresultStatus(result);
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) fail(::PQerrorMessage(db));
  std::string value = ::PQntuples(result) > 0 ? ::PQgetvalue(result, 0, 0) : "";
  ::PQclear(result);
  return value;
}

// [region: postgres]
Result<void> write_stock(PGconn* db, int items, const Lease& lease) {
  run(db, "BEGIN");
  auto guarded = holdfast::fence::postgres::guard(db, "stock", lease.token(), lease.mode());
  if (guarded) run(db, "UPDATE stock SET items = " + std::to_string(items));
  run(db, guarded ? "COMMIT" : "ROLLBACK");
  return guarded;
}
// [end]

}  // namespace

int play_postgres(const std::string& connection) {
  PGconn* db = ::PQconnectdb(connection.c_str());
  if (::PQstatus(db) != CONNECTION_OK) fail(::PQerrorMessage(db));
  run(db, "CREATE TEMPORARY TABLE stock AS SELECT 10 AS items");
  if (auto made = holdfast::fence::postgres::create_table(db); !made) fail(made.error().message());
  const int status =
      play_scene([db](int items, const Lease& lease) { return write_stock(db, items, lease); },
                 [db] { return std::stoi(run(db, "SELECT items FROM stock")); });
  ::PQfinish(db);
  return status;
}

}  // namespace demo
