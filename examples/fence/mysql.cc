#include "holdfast/fence/mysql.h"

#include <mysql.h>

#include "examples/fence/scene.h"

namespace demo {
namespace {

using holdfast::Lease;
using holdfast::Result;

std::string run(MYSQL* db, const std::string& sql) {
  if (::mysql_query(db, sql.c_str()) != 0) fail(sql + ": " + ::mysql_error(db));
  MYSQL_RES* result = ::mysql_store_result(db);
  if (result == nullptr) return "";
  const MYSQL_ROW row = ::mysql_fetch_row(result);
  std::string value = row != nullptr ? row[0] : "";
  ::mysql_free_result(result);
  return value;
}

// [region: mysql]
Result<void> write_stock(MYSQL* db, int items, const Lease& lease) {
  run(db, "START TRANSACTION");
  auto guarded = holdfast::fence::mysql::guard(db, "stock", lease.token(), lease.mode());
  if (guarded) run(db, "UPDATE stock SET items = " + std::to_string(items));
  run(db, guarded ? "COMMIT" : "ROLLBACK");
  return guarded;
}
// [end]

}  // namespace

int play_mysql(const std::string& socket) {
  MYSQL* db = ::mysql_init(nullptr);
  if (::mysql_real_connect(db, nullptr, "root", "", "test", 0, socket.c_str(), 0) == nullptr) {
    fail(::mysql_error(db));
  }
  if (auto made = holdfast::fence::mysql::create_table(db); !made) fail(made.error().message());
  run(db, "CREATE TEMPORARY TABLE stock AS SELECT 10 AS items");
  const int status =
      play_scene([db](int items, const Lease& lease) { return write_stock(db, items, lease); },
                 [db] { return std::stoi(run(db, "SELECT items FROM stock")); });
  ::mysql_close(db);
  return status;
}

}  // namespace demo
