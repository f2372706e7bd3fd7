// The one statement by which a step writes what it changed, of one lock or of several.
//
// Guarantee: everything is written, or nothing: each lock's row must still have the version that
// was read. The statement's only row has the number of locks that were written: all of them, or
// none.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/machine/image.h"
#include "src/rows/lock_rows.h"
#include "src/stores/postgres/statements.h"
#include "src/stores/postgres/values.h"

namespace holdfast::stores::postgres {

class Writes {
 public:
  // `version`: what was read; 0: there was no row. `instant`: what the server's clock showed then.
  void add(const rows::Changes& changes, std::int64_t version, std::int64_t instant);
  // Tombstones as they are now; called after add() of that lock, where they changed.
  void set_tombstones(std::string_view name, const std::vector<machine::TombstoneImage>& stones);
  void keep_refusing(std::int64_t until);  // The lock that was added last.
  void notify(const std::string& channel, const std::string& payload);

  // Which of the parts there are: two that agree have one text.
  unsigned shape() const;
  std::string text(const Statements& statements) const;
  Params params() const;

 private:
  void add_ticket(std::string_view lock, const rows::TicketRow& row);
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
    Array channel, payload;
  } told_;
};

}  // namespace holdfast::stores::postgres
