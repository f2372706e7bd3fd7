// Refuses an old token inside a MySQL or MariaDB transaction (libmariadb), together with the write.
//
// Example (examples/fence/mysql.cc#mysql):
//   Result<void> write_stock(MYSQL* db, int items, const Lease& lease) {
//     run(db, "START TRANSACTION");
//     auto guarded = holdfast::fence::mysql::guard(db, "stock", lease.token(), lease.mode());
//     if (guarded) run(db, "UPDATE stock SET items = " + std::to_string(items));
//     run(db, guarded ? "COMMIT" : "ROLLBACK");
//     return guarded;
//   }
//
// Guarantee: after a success no other holder of the lock, older or newer, gets past a guard of the
// same resource before this transaction ends. Its writes are those of the newest holder so far. At
// every isolation level: the guard reads committed data, not a snapshot.
// Not guaranteed: a write in another transaction or on another connection; a guard undone by
// ROLLBACK TO an earlier savepoint; tables without transactions (MyISAM). In REPEATABLE READ a
// plain SELECT shows the data of the first one: make the guard the first
// statement.
//
// Thread-safety: as the connection's: one thread at a time.
// Ownership: keeps nothing; the table is yours. Guard several resources in one order everywhere.
// Blocking: two or three statements. They wait for the transaction of another holder, for at most
// innodb_lock_wait_timeout.
// Errors: roll back after any of them. A deadlock has ended the transaction already, so your next
// write would commit by itself. kLost (refused: stop), kUnavailable (connection, deadlock,
// timeout: retry the transaction while you hold the lock), kInvalidArgument (no open transaction,
// no table, no such token or resource), kUnsupported (permits), kPermissionDenied, kCorruptState
// (the record is not a token; create_table: a table of that name that is not such a one).
//
// Link with the component fence_mysql (pkg-config holdfast-fence-mysql); libholdfast itself does
// not need libmariadb. It was built with libmariadb's MYSQL: do not give it one of libmysqlclient.
#pragma once

#include <string>

#include "holdfast/mode.h"
#include "holdfast/result.h"
#include "holdfast/token.h"

struct st_mysql;  // MYSQL of mysql.h.

namespace holdfast::fence::mysql {

// Makes the table holdfast_fence in the current database unless it exists, and checks that its
// engine has transactions. Errors: kInvalidArgument in an open transaction, which it would commit.
Result<void> create_table(st_mysql* connection);

// Call it inside an open transaction (or with autocommit off), before the writes.
Result<void> guard(st_mysql* connection, const std::string& resource, const Token& token,
                   const Mode& mode = Mode::exclusive());

}  // namespace holdfast::fence::mysql
