#include "holdfast/fence/sqlite.h"

#include <sqlite3.h>

#include <vector>

#include "examples/fence/scene.h"
#include "holdfast/fence/sql.h"

namespace demo {
namespace {

namespace sql = holdfast::fence::sql;
using holdfast::Lease;
using holdfast::Result;

void run(sqlite3* db, const std::string& sql) {
  if (::sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    fail(sql + ": " + ::sqlite3_errmsg(db));
  }
}

// [region: sqlite]
Result<void> write_stock(sqlite3* db, int items, const Lease& lease) {
  run(db, "BEGIN IMMEDIATE");
  auto guarded = holdfast::fence::sqlite::guard(db, "stock", lease.token(), lease.mode());
  if (guarded) run(db, "UPDATE stock SET items = " + std::to_string(items));
  run(db, guarded ? "COMMIT" : "ROLLBACK");
  return guarded;
}
// [end]

// The first column of the first row.
std::string ask(sqlite3* db, const std::string& sql, const std::vector<std::string>& values) {
  sqlite3_stmt* statement = nullptr;
  ::sqlite3_prepare_v2(db, sql.c_str(), -1, &statement, nullptr);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ::sqlite3_bind_text(statement, static_cast<int>(i) + 1, values[i].c_str(), -1,
                        SQLITE_TRANSIENT);
  }
  if (::sqlite3_step(statement) != SQLITE_ROW) fail(sql + ": " + ::sqlite3_errmsg(db));
  std::string value = reinterpret_cast<const char*>(::sqlite3_column_text(statement, 0));
  ::sqlite3_step(statement);
  ::sqlite3_finalize(statement);
  return value;
}

// [region: sql]
Result<void> write_by_hand(sqlite3* db, int items, const Lease& lease) {
  const std::string guard = sql::guard(sql::Dialect::kSqlite);
  const std::string mine = lease.token().to_string();
  run(db, "BEGIN IMMEDIATE");
  const std::string recorded = ask(db, guard, {"stock", mine});
  if (recorded == mine) run(db, "UPDATE stock SET items = " + std::to_string(items));
  run(db, recorded == mine ? "COMMIT" : "ROLLBACK");
  if (recorded == mine) return {};
  return holdfast::Error(holdfast::Errc::kLost, "refused: " + recorded + " has been here");
}
// [end]

// Each lock has tokens of its own: the scenes share nothing.
int play(sqlite3* db, Result<void> (*write)(sqlite3*, int, const Lease&)) {
  run(db, "DELETE FROM holdfast_fence");
  run(db, "UPDATE stock SET items = 10");
  return play_scene([=](int items, const Lease& lease) { return write(db, items, lease); },
                    [=] { return std::stoi(ask(db, "SELECT items FROM stock", {})); });
}

}  // namespace

int play_sqlite(const std::string& path) {
  sqlite3* db = nullptr;
  if (::sqlite3_open(path.c_str(), &db) != SQLITE_OK) fail("cannot open " + path);
  run(db, "CREATE TABLE IF NOT EXISTS stock (items integer)");
  run(db, "INSERT INTO stock VALUES (10)");
  if (auto made = holdfast::fence::sqlite::create_table(db); !made) fail(made.error().message());
  const int status = play(db, write_stock) + play(db, write_by_hand);
  ::sqlite3_close(db);
  return status;
}

}  // namespace demo
