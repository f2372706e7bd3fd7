// Refuses an old token inside an SQLite transaction, together with the write.
//
// Example (examples/fence/sqlite.cc#sqlite):
//   Result<void> write_stock(sqlite3* db, int items, const Lease& lease) {
//     run(db, "BEGIN IMMEDIATE");
//     auto guarded = holdfast::fence::sqlite::guard(db, "stock", lease.token(), lease.mode());
//     if (guarded) run(db, "UPDATE stock SET items = " + std::to_string(items));
//     run(db, guarded ? "COMMIT" : "ROLLBACK");
//     return guarded;
//   }
//
// Guarantee: after a success no other holder of the lock, older or newer, gets past a guard in the
// same database before this transaction ends. Its writes are those of the newest holder so far. A
// shared holder's transaction reads the data as it was at the check.
// Not guaranteed: a write in another transaction or on another connection; a guard undone by
// ROLLBACK TO an earlier savepoint; a database that is restored from a
// backup.
//
// Thread-safety: as the connection's.
// Ownership: keeps nothing; the table, in the database "main", is yours.
// Blocking: one statement. It waits for another writer for at most the busy timeout. So does BEGIN
// IMMEDIATE; a plain BEGIN that has read may have to be retried (kUnavailable).
// Errors: roll back after any of them. kLost (refused: stop), kUnavailable (busy, a full disk:
// retry the transaction while you hold the lock), kInvalidArgument (no open transaction, no table,
// no such token or resource), kUnsupported (permits), kPermissionDenied (read-only), kCorruptState
// (the record is not a token, or the database is damaged).
//
// Link with the component fence_sqlite (pkg-config holdfast-fence-sqlite). SQLite from 3.35 on.
#pragma once

#include <string>

#include "holdfast/mode.h"
#include "holdfast/result.h"
#include "holdfast/token.h"

struct sqlite3;

namespace holdfast::fence::sqlite {

// Makes the table holdfast_fence unless it exists. Works inside and outside of a transaction.
Result<void> create_table(sqlite3* connection);

// Call it inside an open transaction, before the writes.
Result<void> guard(sqlite3* connection, const std::string& resource, const Token& token,
                   const Mode& mode = Mode::exclusive());

}  // namespace holdfast::fence::sqlite
