#include "holdfast/fence/sqlite.h"

#include <sqlite3.h>

#include "examples/fence/scene.h"

namespace demo {
namespace {

void run(sqlite3* db, const std::string& sql) {
  if (::sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    fail(sql + ": " + ::sqlite3_errmsg(db));
  }
}

// [region: sqlite]
holdfast::Result<void> write_stock(sqlite3* db, int items, const holdfast::Lease& lease) {
  run(db, "BEGIN IMMEDIATE");
  auto guarded = holdfast::fence::sqlite::guard(db, "stock", lease.token(), lease.mode());
  if (guarded) run(db, "UPDATE stock SET items = " + std::to_string(items));
  run(db, guarded ? "COMMIT" : "ROLLBACK");
  return guarded;
}
// [end]

}  // namespace

int play_sqlite(const std::string& path) {
  sqlite3* db = nullptr;
  if (::sqlite3_open(path.c_str(), &db) != SQLITE_OK) fail("cannot open " + path);
  run(db, "CREATE TABLE IF NOT EXISTS stock (items integer)");
  run(db, "INSERT INTO stock VALUES (10)");
  if (auto made = holdfast::fence::sqlite::create_table(db); !made) fail(made.error().message());
  const int status = play_scene(
      [db](int items, const holdfast::Lease& lease) { return write_stock(db, items, lease); },
      [db] {
        sqlite3_stmt* statement = nullptr;
        ::sqlite3_prepare_v2(db, "SELECT items FROM stock", -1, &statement, nullptr);
        ::sqlite3_step(statement);
        const int items = ::sqlite3_column_int(statement, 0);
        ::sqlite3_finalize(statement);
        return items;
      });
  ::sqlite3_close(db);
  return status;
}

}  // namespace demo
