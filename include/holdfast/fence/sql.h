// The fence as SQL, for any client library and language.
//
// A guard table has one row per resource with the highest exclusive token. In the transaction of
// your write, before it, run guard(dialect) with the resource and your token as parameters:
//
//   the recorded token that comes back is      then
//   yours                                      you are the newest holder: write, commit
//   another one (it is higher)                 you have lost the lock: roll back, stop
//
// The statement locks the resource's row until the transaction ends, so nobody gets between the
// check and the commit. postgres.h, mysql.h and sqlite.h do all this, and report the failures.
//
// If the protected data is one row, a column of its own can replace the table:
//
//   ALTER TABLE orders ADD COLUMN <column(dialect, "fence_token")>
//   UPDATE orders SET state = ?, fence_token = :token WHERE id = ? AND fence_token <= :token
//   -- no row was updated: refused (or there is no such row): roll back
//
// (MySQL counts rows that were changed: connect with CLIENT_FOUND_ROWS, or the second of two equal
// writes looks refused. A shared holder's condition is `fence_token < :token`, and it sets
// nothing.)
//
// Guarantee: the rule of fence.h for exclusive tokens at every isolation level; the recorded token
// never falls. Not guaranteed: anything outside of a transaction (autocommit), on a table engine
// without transactions, or if you ignore the statement's answer.
// Tokens are text of a fixed width (Token::to_string) in a column that compares bytes. Never use
// numbers: a token has 96 bits.
//
// Example (examples/fence/sqlite.cc#sql):
//   Result<void> write_by_hand(sqlite3* db, int items, const Lease& lease) {
//     const std::string guard = sql::guard(sql::Dialect::kSqlite);
//     const std::string mine = lease.token().to_string();
//     run(db, "BEGIN IMMEDIATE");
//     const std::string recorded = ask(db, guard, {"stock", mine});
//     if (recorded == mine) run(db, "UPDATE stock SET items = " + std::to_string(items));
//     run(db, recorded == mine ? "COMMIT" : "ROLLBACK");
//     if (recorded == mine) return {};
//     return holdfast::Error(holdfast::Errc::kLost, "refused: " + recorded + " has been here");
//   }
//
// Thread-safety: pure functions. Errors: none.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/export.h"

namespace holdfast::fence::sql {

enum class Dialect { kPostgres, kMySql, kSqlite };  // kMySql: MariaDB, too. SQLite from 3.35 on.

// A row holds this before the first exclusive token; it is below every token.
inline constexpr std::string_view kNoToken = "0000000000.00000000000000000000";

// CREATE TABLE IF NOT EXISTS holdfast_fence ...: run it once, when you make your schema.
HOLDFAST_EXPORT std::string create_table(Dialect dialect);

// Records the token if it is not below the recorded one, and locks the row; parameters: resource,
// token ($1 and $2 in PostgreSQL, ? and ? elsewhere). In PostgreSQL the resource is a bytea, the
// name in UTF-8: bytes are the same name under every client_encoding. Answers with the recorded
// token; in MySQL that answer is read_recorded()'s, to be run next in the same transaction.
HOLDFAST_EXPORT std::string guard(Dialect dialect);

// The recorded token, and its row locked against being raised until the transaction ends (SQLite:
// the transaction's snapshot does that); parameter: resource, as in guard(). A shared holder is
// admitted when it is below the own token, or when there is no row: then insert one with kNoToken,
// to have a lock.
HOLDFAST_EXPORT std::string read_recorded(Dialect dialect);

// A column for tokens in a table of yours: name, type, default kNoToken.
HOLDFAST_EXPORT std::string column(Dialect dialect, std::string_view name);

}  // namespace holdfast::fence::sql
