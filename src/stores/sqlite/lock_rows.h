// The rows of src/rows, read from a database and written to it.
//
// No operation rewrites a queue, since only the tickets that effects name are written. None reads a
// whole one either: a lock can be loaded without the far end of its queue.
//
// The waiters after the first few may be left out, and the machine's step is still the same. None
// of them has ended (`due`), so none expires. None is admitted before the waiters ahead of it, so
// no step looks at them while one of the first few still waits afterwards. Always loaded: an
// upgrade, because it passes the queue; the ticket that the command names; the whole queue if it
// has a shrink. The number of waiters that were left out is added where the machine's answer counts
// waiters.
//
// Thread-safety: as the Database given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/lock_info.h"
#include "src/machine/image.h"
#include "src/rows/lock_rows.h"
#include "src/stores/sqlite/database.h"

namespace holdfast::stores::sqlite {

// An instant as the rows have it.
constexpr machine::Instant instant_of(std::int64_t microseconds) {
  return machine::Instant(machine::Duration(microseconds));
}

struct StoredLock : rows::StoredLock {
  std::uint64_t reached = 0;  // The order of the last of the first waiters: none left out is ahead.
};

inline constexpr std::size_t kWhole = SIZE_MAX;

// How much of a lock to load, for a command at `now` that names a ticket or none.
struct Reach {
  std::size_t waiters = kWhole;
  machine::AcquisitionId named{};
  std::int64_t now = 0;
};

// Errors: kCorruptState for rows that no version of ours wrote.
Result<StoredLock> load_lock(Database& database, std::string_view name, const Reach& reach = {});

// Whether a step of the machine on what was loaded is the one on the whole lock. `after`: as below.
bool reached_enough(const StoredLock& before, const machine::LockImage* after);

// The row that a `SELECT` with the columns of Sql::kLoadLock stands on, and its tickets.
Result<StoredLock> read_lock_row(Database& database, Statement& row, const Reach& reach = {});

Result<void> save_lock(Database& database, const rows::Changes& changes);

struct Extras {
  std::string value;
  std::int64_t broken_token = 0;
  machine::OwnerPtr broken_by;

  std::optional<BreakInfo> trace() const;
};
Result<Extras> load_extras(Database& database, std::string_view name);

}  // namespace holdfast::stores::sqlite
