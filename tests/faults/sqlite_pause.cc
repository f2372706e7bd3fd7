// Stopping a process that uses a database (declared in process_harness.h).
#include <sqlite3.h>

#include <stdexcept>

#include "tests/faults/process_harness.h"

namespace holdfast::faults {
namespace {

// Whether a transaction gets in, though not at once perhaps: others may be at it.
bool can_be_written(const std::string& database) {
  sqlite3* db = nullptr;
  const bool opened =
      sqlite3_open_v2(database.c_str(), &db, SQLITE_OPEN_READWRITE, nullptr) == SQLITE_OK;
  sqlite3_busy_timeout(db, 300);
  const bool done = opened && sqlite3_exec(db, "BEGIN IMMEDIATE; ROLLBACK", nullptr, nullptr,
                                           nullptr) == SQLITE_OK;
  sqlite3_close_v2(db);
  return done;
}

}  // namespace

std::int64_t stop_between_commits(ActorProcess& process, const TempFolder& folder) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    const std::int64_t at = process.stop();
    if (can_be_written(folder.file("locks.db"))) return at;
    process.resume();
  }
  throw std::runtime_error("each time it was stopped, the database was locked");
}

}  // namespace holdfast::faults
