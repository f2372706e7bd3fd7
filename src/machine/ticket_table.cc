#include "src/machine/ticket_table.h"

#include <utility>

namespace holdfast::machine {
namespace {

// A lock with at most so many tickets finds them by a walk.
constexpr std::uint32_t kFewTickets = 4;

void append(List& list, Slab<Ticket>& tickets, TicketIndex index) {
  tickets[index].links = {list.tail, kNone};
  (list.tail == kNone ? list.head : tickets[list.tail].links.next) = index;
  list.tail = index;
  ++list.count;
}

void unlink(List& list, Slab<Ticket>& tickets, TicketIndex index) {
  const Links links = tickets[index].links;
  (links.previous == kNone ? list.head : tickets[links.previous].links.next) = links.next;
  (links.next == kNone ? list.tail : tickets[links.next].links.previous) = links.previous;
  --list.count;
}

}  // namespace

void TicketTable::reserve(std::size_t locks) {
  lock_index_.reserve(locks);
  ticket_ends_.reserve(locks);
}

void TicketTable::prefetch(const LockImage& lock) const {
  lock_index_.prefetch(hash_of(lock.name, seed_));
}

LockIndex TicketTable::find_lock(std::string_view name) const {
  return lock_index_.find(hash_of(name, seed_),
                          [&](LockIndex index) { return locks_[index].name == name; });
}

LockIndex TicketTable::add_lock(std::string_view name) {
  const LockIndex index = locks_.take();
  Lock& lock = locks_[index];
  lock.name = name;
  lock.hash = static_cast<std::uint32_t>(hash_of(name, seed_));
  lock.used = true;
  lock_index_.insert(lock.hash, index);
  return index;
}

void TicketTable::remove_lock(LockIndex index) {
  set_pending(index, false);
  set_exhausted(index, false);
  Lock& lock = locks_[index];
  lock_index_.erase(lock.hash, index);
  std::string name = std::move(lock.name);  // Its memory serves the slot's next lock.
  lock = Lock{};
  name.clear();
  lock.name = std::move(name);
  locks_.give_back(index);
}

TicketIndex TicketTable::find_ticket(LockIndex lock, AcquisitionId id) const {
  if (!locks_[lock].indexed) {
    for (const List* list : locks_[lock].ticket_lists()) {
      for (TicketIndex at = list->head; at != kNone; at = tickets_[at].links.next) {
        if (tickets_[at].id == id) return at;
      }
    }
    return kNone;
  }
  return ticket_index_.find(hash_id(lock, id), [&](TicketIndex index) {
    return tickets_[index].id == id && tickets_[index].lock == lock;
  });
}

TicketIndex TicketTable::add_ticket(LockIndex lock, AcquisitionId id, const Mode& mode) {
  const TicketIndex index = tickets_.take();
  Ticket& ticket = tickets_[index];
  ticket.id = id;
  ticket.lock = lock;
  ticket.kind = mode.kind;
  ticket.permits = mode.permits;
  ticket.order = locks_[lock].next_order++;
  return index;
}

void TicketTable::wait(TicketIndex index) {
  Ticket& ticket = tickets_[index];
  append(locks_[ticket.lock].make_extras().waiters, tickets_, index);
  ticket.waits = true;
  enter_index(index);
}

void TicketTable::hold(TicketIndex index) {
  Ticket& ticket = tickets_[index];
  Lock& lock = locks_[ticket.lock];
  // Holders stand before all waiters, so that admission needs to look at the queue's head only.
  const bool waited = std::exchange(ticket.waits, false);
  if (waited) unlink(lock.own_extras->waiters, tickets_, index);
  append(lock.holders, tickets_, index);
  ticket.held = true;
  lock.held.add(mode_of(ticket));
  if (!waited) enter_index(index);
}

void TicketTable::enter_index(TicketIndex index) {
  const LockIndex of = tickets_[index].lock;
  Lock& lock = locks_[of];
  if (lock.indexed) {
    ticket_index_.insert(hash_id(of, tickets_[index].id), index);
    return;
  }
  if (lock.ticket_count() <= kFewTickets) return;
  lock.indexed = true;
  for (const List* list : lock.ticket_lists()) {
    for (TicketIndex at = list->head; at != kNone; at = tickets_[at].links.next) {
      ticket_index_.insert(hash_id(of, tickets_[at].id), at);
    }
  }
}

// The lock stays indexed until its last ticket has left: one that has few and many tickets in turn
// does not enter and erase them again and again.
void TicketTable::leave_index(TicketIndex index) {
  Lock& lock = locks_[tickets_[index].lock];
  if (!lock.indexed) return;
  ticket_index_.erase(hash_id(tickets_[index].lock, tickets_[index].id), index);
  lock.indexed = lock.has_tickets();
}

void TicketTable::weaken(TicketIndex index) {
  Ticket& ticket = tickets_[index];
  Lock& lock = locks_[ticket.lock];
  lock.held.remove(mode_of(ticket));
  ticket.kind = ModeKind::kShared;
  lock.held.add(mode_of(ticket));
}

void TicketTable::link_upgrade(TicketIndex upgrade, TicketIndex base) {
  LockExtras& extras = locks_[tickets_[upgrade].lock].make_extras();
  extras.upgrade = upgrade;
  extras.upgrade_base = base;
}

void TicketTable::mark_system(TicketIndex index) {
  tickets_[index].system = true;
  locks_[tickets_[index].lock].make_extras().shrink = index;
}

void TicketTable::set_end(TicketIndex index, Instant end) {
  ticket_ends_.put(index, end, first_bits(tickets_[index].id), tie(tickets_));
}

void TicketTable::remove_ticket(TicketIndex index) {
  Ticket& ticket = tickets_[index];
  Lock& lock = locks_[ticket.lock];
  unlink(ticket.held ? lock.holders : lock.own_extras->waiters, tickets_, index);
  if (ticket.held) lock.held.remove(mode_of(ticket));
  if (LockExtras* extras = lock.own_extras.get()) {
    if (extras->upgrade == index) extras->upgrade = kNone;
    if (extras->shrink == index) extras->shrink = kNone;
  }
  if (ticket_ends_.contains(index)) ticket_ends_.remove(index, tie(tickets_));
  leave_index(index);
  ticket = Ticket{};
  tickets_.give_back(index);
}

TombstoneIndex TicketTable::find_tombstone(LockIndex lock, AcquisitionId id) const {
  if (locks_[lock].tombstones == kNone) return kNone;
  return tombstone_index_.find(hash_id(lock, id), [&](TombstoneIndex index) {
    return tombstones_[index].id == id && tombstones_[index].lock == lock;
  });
}

TombstoneIndex TicketTable::add_tombstone(LockIndex lock, AcquisitionId id, Instant until) {
  const TombstoneIndex index = tombstones_.take();
  const TombstoneIndex next = std::exchange(locks_[lock].tombstones, index);
  tombstones_[index] = {.id = id, .lock = lock, .links = {kNone, next}};
  if (next != kNone) tombstones_[next].links.previous = index;
  tombstone_index_.insert(hash_id(lock, id), index);
  set_until(index, until);
  return index;
}

void TicketTable::set_until(TombstoneIndex index, Instant until) {
  tombstone_ends_.put(index, until, first_bits(tombstones_[index].id), tie(tombstones_));
}

void TicketTable::remove_tombstone(TombstoneIndex index) {
  const Tombstone tombstone = tombstones_[index];
  const auto [previous, next] = tombstone.links;
  if (next != kNone) tombstones_[next].links.previous = previous;
  (previous == kNone ? locks_[tombstone.lock].tombstones : tombstones_[previous].links.next) = next;
  tombstone_ends_.remove(index, tie(tombstones_));
  tombstone_index_.erase(hash_id(tombstone.lock, tombstone.id), index);
  tombstones_.give_back(index);
}

void TicketTable::set_pending(LockIndex index, bool pending) {
  Lock& lock = locks_[index];
  if (lock.pending == pending) return;
  lock.pending = pending;
  pending ? (void)pending_.insert({lock.name, index}) : (void)pending_.erase({lock.name, index});
}

void TicketTable::set_exhausted(LockIndex index, bool exhausted) {
  Lock& lock = locks_[index];
  if (lock.exhausted == exhausted) return;
  lock.exhausted = exhausted;
  exhausted ? (void)exhausted_.insert({lock.name, index})
            : (void)exhausted_.erase({lock.name, index});
}

}  // namespace holdfast::machine
