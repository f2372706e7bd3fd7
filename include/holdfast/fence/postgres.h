// Refuses an old token inside a PostgreSQL transaction (libpq), together with the write.
//
// Example (examples/fence/postgres.cc#postgres):
//   Result<void> write_stock(PGconn* db, int items, const Lease& lease) {
//     run(db, "BEGIN");
//     auto guarded = holdfast::fence::postgres::guard(db, "stock", lease.token(), lease.mode());
//     if (guarded) run(db, "UPDATE stock SET items = " + std::to_string(items));
//     run(db, guarded ? "COMMIT" : "ROLLBACK");
//     return guarded;
//   }
//
// Guarantee: after a success no other holder of the lock, older or newer, gets past a guard of the
// same resource before this transaction ends. Its writes are those of the newest holder so far. At
// every isolation level.
// Not guaranteed: a write in another transaction or on another connection; a guard undone by
// ROLLBACK TO an earlier savepoint. Read the data that you decide by after the guard: in
// REPEATABLE READ make the guard the first statement.
//
// Thread-safety: as the connection's: one thread at a time.
// Ownership: keeps nothing; the table is yours. Guard several resources in one order everywhere.
// Blocking: one or two statements. They wait for the transaction of another holder, for at most
// lock_timeout and statement_timeout.
// Errors: roll back after any of them. kLost (refused: stop), kUnavailable (connection, deadlock,
// serialization failure, timeout: retry the transaction while you hold the lock), kInvalidArgument
// (no open transaction, no table, no such token or resource), kUnsupported (permits),
// kPermissionDenied, kCorruptState (the record is not a token).
//
// Link with the component fence_postgres (pkg-config holdfast-fence-postgres); libholdfast itself
// does not need libpq.
#pragma once

#include <string>

#include "holdfast/mode.h"
#include "holdfast/result.h"
#include "holdfast/token.h"

struct pg_conn;  // PGconn of libpq-fe.h.

namespace holdfast::fence::postgres {

// Makes the table holdfast_fence in the first schema of the search path unless it exists. Works
// inside and outside of a transaction.
Result<void> create_table(pg_conn* connection);

// Call it inside an open transaction, before the writes.
Result<void> guard(pg_conn* connection, const std::string& resource, const Token& token,
                   const Mode& mode = Mode::exclusive());

}  // namespace holdfast::fence::postgres
