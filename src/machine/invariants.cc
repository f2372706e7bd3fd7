// The invariants, checked after every command for the parts that it touched, and on demand for all.
#include <cstdio>
#include <cstdlib>

#include "src/machine/machine_impl.h"

namespace holdfast::machine {

void broken_invariant(const char* message, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, message);
  std::abort();
}

void LockMachine::Impl::check_last_step() const {
  check_totals();
  for (const LockIndex index : touched) {
    if (table.lock(index).used) check_lock(index);
  }
}

void LockMachine::Impl::check_all() const {
  check_totals();
  std::size_t tickets = 0;
  std::size_t indexed = 0;
  std::size_t tombstones = 0;
  for (LockIndex index = 0; index < table.lock_slots(); ++index) {
    const Lock& lock = table.lock(index);
    if (!lock.used) continue;
    check_lock(index);
    check_everything_in(index);
    tickets += lock.ticket_count();
    if (lock.indexed) indexed += lock.ticket_count();
    for (TombstoneIndex at = lock.tombstones; at != kNone; at = table.tombstone(at).links.next) {
      HOLDFAST_REQUIRE(table.tombstone(at).lock == index, "a tombstone stands in its own lock");
      ++tombstones;
    }
  }
  HOLDFAST_REQUIRE(tickets == table.ticket_count(), "every ticket stands in one queue");
  HOLDFAST_REQUIRE(indexed == table.indexed_count(), "the index has what is searched there");
  HOLDFAST_REQUIRE(tombstones == table.tombstone_count(), "every tombstone belongs to one lock");
}

void LockMachine::Impl::check_totals() const {
  HOLDFAST_REQUIRE(table.ticket_ends().size() <= table.ticket_count(), "a ticket has one lease");
  HOLDFAST_REQUIRE(table.tombstone_ends().size() == table.tombstone_count(),
                   "a tombstone has one end");
}

void LockMachine::Impl::check_lock(LockIndex index) const {
  const Lock& lock = table.lock(index);
  const Occupancy& held = lock.held;
  const LockExtras& extras = lock.extras();
  const bool upgraded = extras.upgrade != kNone && table.ticket(extras.upgrade).held;
  HOLDFAST_REQUIRE(held.exclusive <= 1, "at most one exclusive holder");
  HOLDFAST_REQUIRE(held.exclusive == 0 || held.shared == (upgraded ? 1U : 0U),
                   "nobody holds beside an exclusive holder but its own shared ticket");
  if (lock.kind == ModeKind::kPermits) {
    HOLDFAST_REQUIRE(held.permits <= lock.capacity, "permits stay within the capacity");
    HOLDFAST_REQUIRE(held.exclusive + held.shared == 0 && extras.upgrade == kNone,
                     "a lock is of one kind");
  } else {
    HOLDFAST_REQUIRE(held.permits == 0 && extras.shrink == kNone, "a lock is of one kind");
    HOLDFAST_REQUIRE(held.exclusive + held.shared == lock.holders.count, "every holder counts");
  }
  HOLDFAST_REQUIRE(lock.last_token.epoch <= floor.epoch, "epochs grow");
  HOLDFAST_REQUIRE(next_admissible(lock) == kNone || lock.pending || lock.exhausted,
                   "whoever can be admitted is, or is about to be");
  HOLDFAST_REQUIRE(!lock.touched, "a step leaves no marks");
}

void LockMachine::Impl::check_everything_in(LockIndex index) const {
  const Lock& lock = table.lock(index);
  Occupancy held;
  Token last_token{};
  for (TicketIndex at = lock.holders.head; at != kNone; at = table.ticket(at).links.next) {
    const Ticket& ticket = table.ticket(at);
    HOLDFAST_REQUIRE(ticket.held && !ticket.waits && !ticket.system, "a holder holds");
    HOLDFAST_REQUIRE(ticket.token() > last_token, "a later grant has a greater token");
    last_token = ticket.token();
    held.add(table.mode_of(ticket));
  }
  HOLDFAST_REQUIRE(held == lock.held, "the sum of the holders is what they take");
  HOLDFAST_REQUIRE(last_token <= lock.last_token, "no token is above the last one issued");

  std::uint64_t last_order = 0;
  for (TicketIndex at = lock.extras().waiters.head; at != kNone; at = table.ticket(at).links.next) {
    const Ticket& ticket = table.ticket(at);
    HOLDFAST_REQUIRE(ticket.waits && !ticket.held && ticket.token() == Token{},
                     "a waiter does not hold");
    HOLDFAST_REQUIRE(ticket.order > last_order, "waiters stand in order");
    HOLDFAST_REQUIRE(ticket.permits <= lock.capacity, "a waiter can be admitted one day");
    last_order = ticket.order;
  }
  HOLDFAST_REQUIRE(last_order < lock.next_order, "the next ticket stands last");

  for (const List* list : lock.ticket_lists()) {
    for (TicketIndex at = list->head; at != kNone; at = table.ticket(at).links.next) {
      const Ticket& ticket = table.ticket(at);
      HOLDFAST_REQUIRE(ticket.lock == index, "a ticket stands in its own lock's queue");
      HOLDFAST_REQUIRE(table.find_ticket(index, ticket.id) == at, "a ticket is found by its id");
      HOLDFAST_REQUIRE(table.find_tombstone(index, ticket.id) == kNone, "a dead id has no ticket");
      HOLDFAST_REQUIRE(ticket.system != table.ticket_ends().contains(at), "a ticket has a lease");
      const TicketIndex base = table.base_of(at);
      HOLDFAST_REQUIRE((base != kNone) == (at == lock.extras().upgrade), "an upgrade is linked");
      HOLDFAST_REQUIRE(
          base == kNone || (table.ticket(base).held && table.ticket(base).lock == index),
          "an upgrade's shared ticket holds");
    }
  }
}

}  // namespace holdfast::machine
