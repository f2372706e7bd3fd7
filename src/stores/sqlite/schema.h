// The tables, and every statement text (docs/stores/sqlite.md has the format for people).
//
//   meta     one row: identity of the file, boot id, token floor and ceiling
//   locks    one row per name; a single holder with nobody waiting stands inline (solo_*)
//   tickets  holders and waiters of the locks that have more than that, in queue order
//   extras   the value beside a lock, and the trace of its last break; when that was written
#pragma once

#include <cstdint>

namespace holdfast::stores::sqlite {

inline constexpr int kApplicationId = 0x486c6466;  // "Hldf"
inline constexpr int kFormat = 1;

// The `policy` of a lock: first come, first served. Early versions knew a 1; it is read as 0.
inline constexpr std::int64_t kFair = 0;

inline constexpr const char* kCreateTables = R"sql(
CREATE TABLE meta(
  id INTEGER PRIMARY KEY CHECK(id = 1),
  inode INTEGER NOT NULL, birth INTEGER NOT NULL, boot TEXT NOT NULL,
  floor INTEGER NOT NULL, ceiling INTEGER NOT NULL);
CREATE TABLE locks(
  name BLOB PRIMARY KEY, token INTEGER NOT NULL, at INTEGER NOT NULL, due INTEGER NOT NULL,
  tickets INTEGER NOT NULL, next_ord INTEGER NOT NULL,
  kind INTEGER NOT NULL, capacity INTEGER NOT NULL, policy INTEGER NOT NULL,
  solo_id BLOB, solo_mode INTEGER, solo_permits INTEGER, solo_seq INTEGER, solo_end INTEGER,
  solo_lease INTEGER, solo_ttl INTEGER, solo_waiter_ttl INTEGER, owner BLOB) WITHOUT ROWID;
CREATE TABLE tickets(
  lock BLOB NOT NULL, ord INTEGER NOT NULL, id BLOB NOT NULL, flags INTEGER NOT NULL,
  mode INTEGER NOT NULL, permits INTEGER NOT NULL, upgrade_of BLOB, token INTEGER NOT NULL,
  seq INTEGER NOT NULL, lease_end INTEGER NOT NULL, lease INTEGER NOT NULL, ttl INTEGER NOT NULL,
  waiter_ttl INTEGER NOT NULL, owner BLOB, PRIMARY KEY(lock, ord)) WITHOUT ROWID;
CREATE UNIQUE INDEX ticket_ids ON tickets(lock, id);
CREATE INDEX odd_tickets ON tickets(lock) WHERE upgrade_of IS NOT NULL OR flags > 1;
CREATE TABLE extras(name BLOB PRIMARY KEY, value BLOB, broken_token INTEGER, broken_by BLOB,
  used INTEGER NOT NULL DEFAULT 0)
  WITHOUT ROWID;
)sql";

// --- The uncontended path: the machine restated for a lock that nobody else holds or waits for.
// Conditions read only the lock's own row. Whatever they do not cover is left to the machine.
// told() is our own function: it gives back its argument and remembers it (Database::told).
// RETURNING does the same through a table that SQLite makes for each execution, a tenth of the
// whole cost.

// ?1 name ?2 now ?3 end ?4 floor ?5 ceiling ?6 kind ?7 capacity ?8 policy ?9 id ?10 mode
// ?11 permits ?12 lease ?13 waiter_ttl ?14 owner
inline constexpr const char* kFastAcquire = R"sql(
UPDATE locks SET token = told(max(token, ?4) + 1), at = ?2, kind = ?6, capacity = ?7, policy = ?8,
  solo_id = ?9, solo_mode = ?10, solo_permits = ?11, solo_seq = 0, solo_end = ?3, solo_lease = ?12,
  solo_ttl = ?12, solo_waiter_ttl = ?13, owner = ?14
WHERE name = ?1 AND tickets = 0 AND at <= ?2 AND max(token, ?4) < ?5
  AND (solo_id IS NULL OR (solo_end <= ?2 AND solo_id <> ?9)))sql";

// ?1 name ?2 now ?3 id
inline constexpr const char* kFastRelease = R"sql(
UPDATE locks SET solo_id = NULL, at = ?2
WHERE name = ?1 AND solo_id = ?3 AND solo_end > ?2 AND tickets = 0 AND at <= ?2)sql";

// ?1 name ?2 now ?3 id ?4 seq ?5 end ?6 lease
inline constexpr const char* kFastRenew = R"sql(
UPDATE locks SET token = told(token), solo_end = ?5, solo_lease = ?6, solo_seq = ?4, at = ?2
WHERE name = ?1 AND solo_id = ?3 AND solo_end > ?2 AND tickets = 0 AND at <= ?2
  AND solo_seq < ?4 AND solo_end < ?5)sql";

// A heartbeat or renewal while others hold or wait, when nothing of this lock is due: touches the
// one ticket. An upgrade that waits goes to the machine: its place is not that of its row.
// ?1 name ?2 now ?3 id ?4 seq ?5 end of a holder ?6 lease of a holder
// ?7 end of a waiter ?8 lease of a waiter
inline constexpr const char* kBeat = R"sql(
UPDATE tickets SET seq = ?4, lease_end = CASE flags WHEN 1 THEN ?5 ELSE ?7 END,
  lease = CASE flags WHEN 1 THEN ?6 ELSE ?8 END
WHERE lock = ?1 AND id = ?3 AND flags < 2 AND seq < ?4 AND (flags = 1 OR upgrade_of IS NULL)
  AND lease_end < CASE flags WHEN 1 THEN ?5 ELSE ?7 END
  AND (SELECT due > ?2 AND at <= ?2 AND policy = 0 FROM locks WHERE name = ?1)
RETURNING flags, token, ord)sql";

// Waiters ahead, counted up to 65. ?1 name ?2 ord
inline constexpr const char* kAhead = R"sql(
SELECT count(*) FROM
  (SELECT 1 FROM tickets WHERE lock = ?1 AND ord < ?2 AND (flags & 1) = 0 LIMIT 65))sql";

// The earliest lease end among the first holders. ?1 name
inline constexpr const char* kNextExpiry = R"sql(
SELECT min(lease_end) FROM
  (SELECT flags, lease_end FROM tickets WHERE lock = ?1 ORDER BY ord LIMIT 64)
WHERE flags = 1)sql";

// The grant of a ticket that holds. ?1 name ?2 id
inline constexpr const char* kLookHeld = R"sql(
SELECT token, seq, lease FROM tickets WHERE lock = ?1 AND id = ?2 AND flags = 1
UNION ALL SELECT token, solo_seq, solo_lease FROM locks WHERE name = ?1 AND solo_id = ?2)sql";

// --- The general path: load, run the machine, write back what it changed.

inline constexpr const char* kLoadMeta = "SELECT floor, ceiling, inode, birth, boot FROM meta";

inline constexpr const char* kLoadLock = R"sql(
SELECT token, at, due, tickets, next_ord, kind, capacity, policy, solo_id, solo_mode, solo_permits,
  solo_seq, solo_end, solo_lease, solo_ttl, solo_waiter_ttl, owner, name
FROM locks WHERE name = ?1)sql";
// Locks that somebody holds or waits for, from ?1 on. ?2 now
inline constexpr const char* kListLocks = R"sql(
SELECT token, at, due, tickets, next_ord, kind, capacity, policy, solo_id, solo_mode, solo_permits,
  solo_seq, solo_end, solo_lease, solo_ttl, solo_waiter_ttl, owner, name
FROM locks WHERE name >= ?1 AND (tickets > 0 OR (solo_id IS NOT NULL AND solo_end > ?2))
ORDER BY name)sql";

inline constexpr const char* kLoadTickets = R"sql(
SELECT ord, id, flags, mode, permits, upgrade_of, token, seq, lease_end, lease, ttl, waiter_ttl,
  owner FROM tickets WHERE lock = ?1 ORDER BY ord)sql";
// One ticket. ?1 name ?2 id
inline constexpr const char* kLoadTicket = R"sql(
SELECT ord, id, flags, mode, permits, upgrade_of, token, seq, lease_end, lease, ttl, waiter_ttl,
  owner FROM tickets WHERE lock = ?1 AND id = ?2)sql";
// Tickets whose place in the queue is not that of their row: an upgrade, a shrink; two at most. The
// index of the same condition has those of all locks, which are few. The plus keeps SQLite from
// walking the whole queue instead. ?1 name
inline constexpr const char* kLoadOddTickets = R"sql(
SELECT ord, id, flags, mode, permits, upgrade_of, token, seq, lease_end, lease, ttl, waiter_ttl,
  owner FROM tickets WHERE +lock = ?1 AND (upgrade_of IS NOT NULL OR flags > 1))sql";

inline constexpr const char* kSaveLock = R"sql(
INSERT OR REPLACE INTO locks(name, token, at, due, tickets, next_ord, kind, capacity, policy,
  solo_id, solo_mode, solo_permits, solo_seq, solo_end, solo_lease, solo_ttl, solo_waiter_ttl,
  owner)
VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18))sql";

inline constexpr const char* kSaveTicket = R"sql(
INSERT OR REPLACE INTO tickets(lock, ord, id, flags, mode, permits, upgrade_of, token, seq,
  lease_end, lease, ttl, waiter_ttl, owner)
VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14))sql";

inline constexpr const char* kDropTicket = "DELETE FROM tickets WHERE lock = ?1 AND id = ?2";

inline constexpr const char* kSaveValue = R"sql(
INSERT INTO extras(name, value, used) VALUES(?1, ?2, ?3)
ON CONFLICT DO UPDATE SET value = ?2, used = ?3)sql";
inline constexpr const char* kSaveBroken = R"sql(
INSERT INTO extras(name, broken_token, broken_by, used) VALUES(?1, ?2, ?3, ?4)
ON CONFLICT DO UPDATE SET broken_token = ?2, broken_by = ?3, used = ?4)sql";
inline constexpr const char* kLoadExtras =
    "SELECT value, broken_token, broken_by FROM extras WHERE name = ?1";

// --- Another boot, another file, a new block of tokens.

// The instant of a lock's last change: in its row, or of the last heartbeat of a ticket. ?1 name
inline constexpr const char* kLastChange = R"sql(
SELECT max(at, ifnull((SELECT max(lease_end - lease) FROM tickets WHERE lock = ?1), 0))
FROM locks WHERE name = ?1)sql";

// ?1 new ceiling ?2 new floor
inline constexpr const char* kRaiseTokens = "UPDATE meta SET ceiling = ?1, floor = max(floor, ?2)";

// --- Forgetting. `used` is wall clock in microseconds, as it counts across boots.

// The next rows after a name, and whether each has been idle for long. ?1 name
// ?2 boot time ?3 wall clock: used before them
inline constexpr const char* kIdleLocks = R"sql(
SELECT name, tickets = 0 AND at <= ?2 AND (solo_id IS NULL OR solo_end <= ?2)
  AND NOT EXISTS (SELECT 1 FROM extras WHERE extras.name = locks.name AND used > ?3)
FROM locks WHERE name > ?1 ORDER BY name LIMIT 64)sql";
// Removes an idle lock if it still is, and reports its token. ?1 name ?2 boot time
inline constexpr const char* kForgetLock = R"sql(
DELETE FROM locks WHERE name = ?1 AND tickets = 0 AND at <= ?2
  AND (solo_id IS NULL OR solo_end <= ?2) AND told(token) IS NOT NULL)sql";
inline constexpr const char* kForgetExtras = "DELETE FROM extras WHERE name = ?1";

// For files of a version that did not know it.
inline constexpr const char* kHasUsed =
    "SELECT count(*) FROM pragma_table_info('extras') WHERE name = 'used'";
inline constexpr const char* kAddUsed =
    "ALTER TABLE extras ADD COLUMN used INTEGER NOT NULL DEFAULT 0;"
    "UPDATE extras SET used = 1000000 * CAST(strftime('%s', 'now') AS INTEGER)";

// The new floor lies above every token ever given, so that idle rows need not be kept. A lock with
// extras keeps a row, because the clean-up goes by these rows.
inline constexpr const char* kVoidLeases = R"sql(
DELETE FROM tickets;
DELETE FROM locks;
DELETE FROM extras WHERE value IS NULL AND broken_token IS NULL;
INSERT INTO locks(name, token, at, due, tickets, next_ord, kind, capacity, policy)
  SELECT name, 0, -4611686018427387904, 9223372036854775807, 0, 2, 0, 1, 0 FROM extras;
)sql";
inline constexpr const char* kAdoptFile =
    "UPDATE meta SET inode = ?1, birth = ?2, boot = ?3, floor = ?4, ceiling = ?5";

}  // namespace holdfast::stores::sqlite
