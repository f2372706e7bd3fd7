// The rows of a lock, as the requests `read` and `list` of a dialect return them.
//
// Thread-safety: pure functions. Errors: kCorruptState: rows that no version of ours wrote.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/lock_info.h"
#include "holdfast/result.h"
#include "src/port/store.h"
#include "src/rows/lock_rows.h"
#include "src/sql/values.h"

namespace holdfast::sql {

// Their columns. kTombstones is "ID as 32 digits, and the instant" of each, separated by spaces.
enum Column : int {
  kNow,
  kName,
  kVersion,
  kToken,
  kAt,
  kDue,
  kTickets,
  kNextOrder,
  kKind,
  kCapacity,
  kSoloId,
  kSoloMode,
  kSoloPermits,
  kSoloSeq,
  kSoloEnd,
  kSoloLease,
  kSoloTtl,
  kSoloWaiterTtl,
  kSoloOwner,
  kValue,
  kBrokenToken,
  kBrokenBy,
  kTombstones,
  kOrder,
  kId,
  kFlags,
  kMode,
  kPermits,
  kUpgradeOf,
  kTicketToken,
  kSeq,
  kLeaseEnd,
  kLease,
  kTtl,
  kWaiterTtl,
  kOwner
};

// A lock as a statement read it.
struct ReadLock {
  rows::StoredLock stored;
  std::int64_t version = 0;  // 0: there is no row.
  std::int64_t now = 0;      // The server's clock.
  std::optional<BreakInfo> trace;
};
// `address`: for messages.
Result<std::vector<ReadLock>> read_locks(const Rows& rows, const std::string& address);

// A holder, of three columns that follow each other: token, seq, lease.
port::AcquisitionState held_state(const Rows& rows, int row, int token_column);

}  // namespace holdfast::sql
