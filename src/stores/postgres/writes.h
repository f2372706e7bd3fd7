// The one statement by which a step writes what it changed.
//
// Guarantee: everything is written, or nothing; where the locks are apart, each of them is, or not.
// The rows are those of Dialect::write().
//
// Thread-safety: none.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "src/sql/link.h"
#include "src/sql/writes.h"
#include "src/stores/postgres/statements.h"
#include "src/stores/postgres/values.h"

namespace holdfast::stores::postgres {

// The columns of what is written, each as an array.
class WriteArrays {
 public:
  explicit WriteArrays(const sql::Writes& writes);

  // Which of the parts there are: two that agree have one text.
  unsigned shape() const;
  std::string text(const Statements& statements) const;
  Params params() const;

 private:
  void add_lock(const sql::Writes::Lock& lock);
  void add_ticket(const sql::Writes::Ticket& ticket);
  void add_extra(const sql::Writes::Extra& extra);
  std::vector<const Array*> parts() const;

  struct Locks {
    Array name, expected, version, refuse_until, token, at, due, tickets, next_order, kind,
        capacity, solo_id, solo_mode, solo_permits, solo_seq, solo_end, solo_lease, solo_ttl,
        solo_waiter_ttl, owner;
  } locks_;
  struct Tickets {
    Array lock, order, id, flags, mode, permits, upgrade_of, token, seq, lease_end, lease, ttl,
        waiter_ttl, owner;
  } tickets_;
  struct Dropped {
    Array lock, id;
  } dropped_;
  struct Extras {
    Array name, value, broken_token, broken_by;
  } extras_;
  struct Stones {
    Array names;  // The locks whose tombstones are replaced.
    Array lock, id, until;
  } stones_;
  struct Told {
    Array lock, channel, payload;
  } told_;
  const bool apart_;
};

}  // namespace holdfast::stores::postgres
