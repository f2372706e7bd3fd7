// One lock as rows, and the rows as the machine's image.
//
// A lock with a single holder and nobody waiting stands inline in its `locks` row (solo); anything
// else has one `tickets` row per ticket. Saving writes only the tickets that effects name, so that
// no operation rewrites a queue.
//
// Thread-safety: as the Database given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/lock_info.h"
#include "src/machine/effect.h"
#include "src/machine/image.h"
#include "src/stores/sqlite/database.h"

namespace holdfast::stores::sqlite {

struct StoredLock {
  machine::LockImage image;
  std::int64_t at = 0;            // The last instant at which a command changed it.
  machine::AcquisitionId solo{};  // The holder that stands inline.
  bool exists = false;            // There is a row.
};

// Errors: kCorruptState for rows that no version of ours wrote.
Result<StoredLock> load_lock(Database& database, std::string_view name);

// The row that a `SELECT` with the columns of Sql::kLoadLock stands on, and its tickets.
Result<StoredLock> read_lock_row(Database& database, Statement& row);

// What the machine made of it. `after`: nullopt when the lock has nothing left but its token.
struct SavedLock {
  std::int64_t at = 0;
  std::int64_t due = 0;  // No ticket is over before it.
  const machine::LockImage* after = nullptr;
  const machine::Effects* effects = nullptr;
};
Result<void> save_lock(Database& database, const StoredLock& before, const SavedLock& saved);

struct Extras {
  std::string value;
  std::int64_t broken_token = 0;
  machine::OwnerPtr broken_by;

  std::optional<BreakInfo> trace() const;
};
Result<Extras> load_extras(Database& database, std::string_view name);

}  // namespace holdfast::stores::sqlite
