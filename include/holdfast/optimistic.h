// Optimistic locking of one row: read it, compute, and write only if nobody else wrote meanwhile.
// Statements for any client library, a bounded retry, and a lock for the row when retries fail.
//
//   remedy             statement                                     no row was matched
//   update()           ... version + 1 WHERE id = ? AND version = ?  others wrote: read again
//   transition()       ... WHERE id = ? AND state = ?                it is in another state: stop
//   retry()            repeats an attempt, with growing random pauses
//   retry() + a lock   after the last failure, takes the lock and reads FOR UPDATE
//
// Example (examples/optimistic.cc#points):
//   const Row kAccount{.table = "account", .key = "42"};
//
//   Result<void> add_points(Session& db, int points, Mutex& account) {
//     auto attempt = [&](Reading reading) -> Result<std::size_t> {
//       if (reading == Reading::kForUpdate) db.run("BEGIN IMMEDIATE");
//       const auto seen = db.ask(optimistic::read(kSqlite, kAccount, {"points"}, reading));
//       const std::string sum = std::to_string(sum_of(seen[0], points));
//       const auto write = optimistic::update(kSqlite, kAccount, {{"points", sum}},
//                                             /*version=*/std::stoll(seen[1]));
//       const std::size_t matched = db.change(write);
//       if (reading == Reading::kForUpdate) db.run("COMMIT");
//       return matched;  // 0: somebody else wrote meanwhile
//     };
//     return optimistic::retry({.tries = 5}, attempt, account, {.wait = 10s});
//   }
//
// Guarantee: one of the writers that read a version matches a row. retry() ends with a success
// only when an attempt wrote one row. The lock decides only who waits. The version decides who
// writes, so a lost lock loses no update.
// Not guaranteed: anything about a writer that leaves `version` alone. A state may come back
// (a, b, a), which transition() cannot notice; a version never comes back. transition() leaves the
// version alone: where both are used on a row, write the state by update(), too.
//
// Tables, columns and keys' columns go into the text as they are: never take them from input.
// Values are parameters. MySQL: both statements change what they match, so the row count is right
// with and without CLIENT_FOUND_ROWS. Let states differ in more than upper and lower case there.
//
// Thread-safety: pure functions, except for what the attempt does.
// Time: retry() sleeps on this thread; `tries` and `longest_pause` bound the sum.
// Errors: with each.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/errc.h"
#include "holdfast/export.h"
#include "holdfast/fence/sql.h"
#include "holdfast/options.h"
#include "holdfast/result.h"
#include "holdfast/with_lock.h"

namespace holdfast::optimistic {

using fence::sql::Dialect;

// A statement for the client library: $1, $2 in PostgreSQL, ? elsewhere, and a text for each.
struct Statement {
  std::string text{};
  std::vector<std::string> values{};

  friend bool operator==(const Statement&, const Statement&) = default;
};

// One row, by a unique key.
struct Row {
  std::string table{};
  std::string key{};
  std::string key_column = "id";
  std::string version_column = "version";  // integer NOT NULL DEFAULT 0
};

// Columns and the values to write.
using Columns = std::vector<std::pair<std::string, std::string>>;

// Whether a read locks its row until the transaction ends.
enum class Reading { kPlain, kForUpdate };

// SELECT of the columns, with the version as the last one. kForUpdate needs a transaction around
// the read and the write (SQLite: BEGIN IMMEDIATE, which is the lock there).
HOLDFAST_EXPORT Statement read(Dialect dialect, const Row& row,
                               const std::vector<std::string>& columns,
                               Reading reading = Reading::kPlain);

// Writes the columns and version + 1, if the version is still `version`. Rows matched: 1 or 0.
HOLDFAST_EXPORT Statement update(Dialect dialect, const Row& row, const Columns& columns,
                                 std::int64_t version);

// Moves the row from one state to the next, and writes `also`, if it is in state `from`. Rows
// matched: 1 for one caller, 0 for all others.
// Errors: kInvalidArgument: `from` is `to`, so every caller would match.
HOLDFAST_EXPORT Result<Statement> transition(Dialect dialect, const Row& row,
                                             const std::string& from, const std::string& to,
                                             const Columns& also = {},
                                             std::string_view state_column = "state");

// After the n-th failure the caller pauses for a random time from zero to first_pause * 2^(n-1),
// at most longest_pause. Random, so that callers that failed together do not come back together.
struct RetryPolicy {
  int tries = 5;  // Attempts before retry() gives up or takes the lock; at least 1.
  std::chrono::milliseconds first_pause{5};
  std::chrono::milliseconds longest_pause{250};
};

// Draws such a pause; for loops of your own (coroutines). `failures` counts from 1.
HOLDFAST_EXPORT std::chrono::nanoseconds pause_after(const RetryPolicy& policy, int failures);

// Reads, computes and writes once, in a transaction of its own, and answers with the rows matched.
// It gives kUnavailable for a deadlock or a serialization failure, and kOutcomeUnknown when the
// reply to its write or COMMIT was lost.
using Attempt = std::function<Result<std::size_t>(Reading)>;

// Repeats the attempt while it matches no row or is kUnavailable. Every other error ends it: after
// kOutcomeUnknown another attempt could add the points twice.
// Errors: kUnavailable (all tries failed, nothing was written: retry later), kInvalidArgument (the
// write matched several rows, the key is not unique; or `tries` is below 1), the attempt's own.
HOLDFAST_EXPORT Result<void> retry(const RetryPolicy& policy, const Attempt& attempt,
                                   Reading reading = Reading::kPlain);

// The same, and after the last failure once more, FOR UPDATE, while this caller holds `lock`: any
// primitive with acquire(), one for each row. Callers that failed then wait in its queue and
// not at the row. Errors: also those of acquire(); nothing was written then.
template <AcquiresWithOptions Lock>
Result<void> retry(const RetryPolicy& policy, const Attempt& attempt, Lock&& lock,
                   AcquireOptions options) {
  Result<void> done = retry(policy, attempt);
  if (done || done.error().code() != Errc::kUnavailable) return done;
  // The write counts even if the lock was lost meanwhile, so the release's error is dropped.
  static_cast<void>(with_lock(
      lock, std::move(options), [&](auto&) { done = retry(policy, attempt, Reading::kForUpdate); },
      [&](const Error& why) { done = why; }));
  return done;
}

}  // namespace holdfast::optimistic
