// The rows of a lock, as the statements `read` and `list` return them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/lock_info.h"
#include "holdfast/result.h"
#include "src/rows/lock_rows.h"
#include "src/stores/postgres/link.h"

namespace holdfast::stores::postgres {

// A lock as a statement read it.
struct ReadLock {
  rows::StoredLock stored;
  std::int64_t version = 0;  // 0: there is no row.
  std::int64_t now = 0;      // The server's clock.
  std::optional<BreakInfo> trace;
};
// The locks of `read` and `list`. Errors: kCorruptState.
Result<std::vector<ReadLock>> read_locks(const Rows& rows, const std::string& address);

}  // namespace holdfast::stores::postgres
