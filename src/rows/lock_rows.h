// Converts the machine's image of a lock to rows of a database and back, for every store with
// tables.
//
// A lock with one holder and no waiter is stored inline in its `locks` row (solo); otherwise each
// ticket has a `tickets` row. A step changes only the tickets that its effects name, so no
// operation rewrites a queue.
//
// Thread-safety: pure functions and values.
// Errors: rows that no version of ours wrote are refused (false).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/lock_info.h"
#include "src/machine/effect.h"
#include "src/machine/image.h"
#include "src/port/store.h"

namespace holdfast::rows {

// Flags of a ticket.
inline constexpr int kHeldFlag = 1;
inline constexpr int kSystemFlag = 2;

// Due time of a lock without an expiring ticket.
inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

machine::Token token_of(std::int64_t counter);  // Treats a negative counter as zero.

// The columns that a `tickets` row and the inline holder of a `locks` row have in common.
struct TicketRow {
  std::int64_t order = 0;
  machine::AcquisitionId id{};
  std::int64_t flags = kHeldFlag;
  std::int64_t mode = 0;
  std::int64_t permits = 0;
  machine::AcquisitionId upgrade_of{};
  std::int64_t token = 0;
  std::int64_t seq = 0;
  std::int64_t lease_end = 0;
  std::int64_t lease = 0;
  std::int64_t ttl = 0;
  std::int64_t waiter_ttl = 0;
  std::string owner;  // As encode_owner() writes it.
};

struct LockRow {
  std::string name;
  std::int64_t token = 0;
  std::int64_t at = 0;   // The last instant at which a command changed it.
  std::int64_t due = 0;  // No ticket is over before it.
  std::int64_t tickets = 0;
  std::int64_t next_order = 0;
  std::int64_t kind = 0;
  std::int64_t capacity = 0;
  std::optional<TicketRow> solo;  // The row implies its order and token.
};

struct StoredLock {
  machine::LockImage image;
  std::int64_t at = 0;
  std::int64_t due = 0;
  machine::AcquisitionId solo{};  // The holder that stands inline.
  bool exists = false;            // There is a row.
  std::int64_t tickets = 0;       // Rows of tickets that it has.
  std::int64_t left_out = 0;      // Waiters among them that are not in the image.
};

// The lock without the tickets that have rows of their own.
bool read_lock(const LockRow& row, StoredLock& lock);
// One more ticket; the rows come in the order of the queue.
bool read_ticket(const TicketRow& row, StoredLock& lock);

// The result of one or more steps of the machine. `after`: nullptr when the lock has nothing left
// but its token.
struct Outcome {
  std::int64_t at = 0;
  std::int64_t due = 0;
  const machine::LockImage* after = nullptr;
  const machine::Effects* effects = nullptr;
};

struct Changes {
  struct Broken {
    std::int64_t token = 0;
    std::string by;
  };

  LockRow lock;
  std::vector<TicketRow> saved;
  std::vector<machine::AcquisitionId> dropped;
  std::optional<std::string> value;
  std::optional<Broken> broken;
};
Changes changes_of(const StoredLock& before, const Outcome& outcome);

// Whether there is anything to write.
bool changes_anything(const machine::Effects& effects);

// Somebody else's ticket that a change concerns.
struct Notice {
  machine::AcquisitionId id;
  std::string wake;                               // Where its client listens; empty: it polls.
  std::optional<port::AcquisitionState> granted;  // Set: that is what happened.
};
// `own`: the client's own address. Its own ticket `id` is left out: the reply tells it.
void collect_notices(const StoredLock& before, const machine::Effects& effects,
                     machine::AcquisitionId id, const std::string& own,
                     std::vector<Notice>& notices);

}  // namespace holdfast::rows
