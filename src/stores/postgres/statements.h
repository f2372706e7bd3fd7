// The tables, and every statement text (docs/stores/postgres.md has the format for people).
//
//   meta        one row: the format
//   locks       one row per name; a single holder with nobody waiting stands inline (solo_*)
//   tickets     holders and waiters of the locks that have more than that, in queue order
//   tombstones  ids that are refused for a while, since a request for them may still arrive
//   extras      the value beside a lock, and the trace of its last break
//   records     what ids keep here (src/sql/records.h)
//
// In the texts `@` is the schema and a dot, and `@now(N)` is the instant in microseconds: parameter
// N, or the server's clock where that is NULL. The clock is read where it stands in the text, so in
// an UPDATE after the wait for the row.
//
// Thread-safety: immutable once made.
#pragma once

#include <string>
#include <string_view>

namespace holdfast::stores::postgres {

inline constexpr int kFormat = 1;

struct Statements {
 private:
  std::string schema_;  // Before the texts, which are made of it.

 public:
  explicit Statements(std::string_view schema);

  // The text with the schema and the clock in it.
  std::string of(std::string_view pattern) const;

  // $1 name $2 now $3 id $4 mode $5 permits $6 kind $7 capacity $8 ttl $9 waiter ttl $10 owner.
  // The token, where the lock was free.
  std::string grant;
  // The same where the lock has a row.
  std::string regrant;
  // $1 name $2 now $3 id. A row, where that was the only holder and nobody waited.
  std::string release;
  // $1 name $2 now $3 id $4 the client's channel. The same, also with others waiting: see
  // sql::Dialect::hand_on.
  std::string hand_on;
  // The two above for many locks, none of them twice. $1 now, then arrays: the other parameters of
  // `grant` in their order, all NULL but name and id for a release. Name and token of each that was
  // carried out.
  std::string many;
  // $1 now, then arrays: $2 names $3 ids $4 seqs $5 ttls $6 waiter ttls. A row per ticket that was
  // extended: its place in the arrays, flags, token, waiters ahead, time to the next expiry.
  std::string renew;
  // $1 names $2 ids. A row for each that holds: id, token, seq, lease.
  std::string look;
  // $1 now $2 names. One row per lock and ticket, with the columns of src/sql/read_lock.h.
  std::string read;
  // $1 now $2 from $3 below (or NULL) $4 limit. The same of the locks that somebody uses.
  std::string list;
  // $1 name.
  std::string value;
  std::string create;
  std::string check;
};

}  // namespace holdfast::stores::postgres
