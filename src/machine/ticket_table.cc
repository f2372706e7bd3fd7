#include "src/machine/ticket_table.h"

namespace holdfast::machine {
namespace {

template <class Items>
void append(List& list, Items& items, std::uint32_t index) {
  items[index].links = {list.tail, kNone};
  (list.tail == kNone ? list.head : items[list.tail].links.next) = index;
  list.tail = index;
  ++list.count;
}

template <class Items>
void unlink(List& list, Items& items, std::uint32_t index) {
  const Links links = items[index].links;
  (links.previous == kNone ? list.head : items[links.previous].links.next) = links.next;
  (links.next == kNone ? list.tail : items[links.next].links.previous) = links.previous;
  --list.count;
}

}  // namespace

void TicketTable::reserve(std::size_t locks) {
  lock_index_.reserve(locks);
  ticket_index_.reserve(locks);
  ticket_ends_.reserve(locks);
}

void TicketTable::prefetch(const LockImage& lock) const {
  const std::uint64_t hash = hash_of(lock.name, seed_);
  lock_index_.prefetch(hash);
  for (const TicketImage& ticket : lock.tickets) {
    ticket_index_.prefetch(mix(hash ^ ticket.id.high, ticket.id.low));
  }
}

LockIndex TicketTable::find_lock(std::string_view name) const {
  return lock_index_.find(hash_of(name, seed_),
                          [&](LockIndex index) { return locks_[index].name == name; });
}

LockIndex TicketTable::add_lock(std::string_view name) {
  const LockIndex index = locks_.take();
  Lock& lock = locks_[index];
  lock.name = name;
  lock.hash = hash_of(name, seed_);
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
  ticket_index_.insert(hash_id(lock, id), index);
  append(locks_[lock].waiters, tickets_, index);
  return index;
}

void TicketTable::hold(TicketIndex index) {
  Ticket& ticket = tickets_[index];
  Lock& lock = locks_[ticket.lock];
  // Holders stand before all waiters, so that admission needs to look at the queue's head only.
  unlink(lock.waiters, tickets_, index);
  append(lock.holders, tickets_, index);
  ticket.held = true;
  lock.held.add(mode_of(ticket));
}

void TicketTable::weaken(TicketIndex index) {
  Ticket& ticket = tickets_[index];
  Lock& lock = locks_[ticket.lock];
  lock.held.remove(mode_of(ticket));
  ticket.kind = ModeKind::kShared;
  lock.held.add(mode_of(ticket));
}

void TicketTable::link_upgrade(TicketIndex upgrade, TicketIndex base) {
  tickets_[upgrade].base = base;
  locks_[tickets_[upgrade].lock].upgrade = upgrade;
}

void TicketTable::mark_system(TicketIndex index) {
  tickets_[index].system = true;
  locks_[tickets_[index].lock].shrink = index;
}

void TicketTable::set_end(TicketIndex index, Instant end) {
  tickets_[index].lease_end = end;
  ticket_ends_.put(index, end, tickets_[index].id.high, tie(tickets_));
}

void TicketTable::remove_ticket(TicketIndex index) {
  Ticket& ticket = tickets_[index];
  Lock& lock = locks_[ticket.lock];
  unlink(ticket.held ? lock.holders : lock.waiters, tickets_, index);
  if (ticket.held) lock.held.remove(mode_of(ticket));
  if (lock.upgrade == index) lock.upgrade = kNone;
  if (lock.shrink == index) lock.shrink = kNone;
  if (ticket_ends_.contains(index)) ticket_ends_.remove(index, tie(tickets_));
  ticket_index_.erase(hash_id(ticket.lock, ticket.id), index);
  ticket = Ticket{};
  tickets_.give_back(index);
}

TombstoneIndex TicketTable::find_tombstone(LockIndex lock, AcquisitionId id) const {
  if (locks_[lock].tombstones.count == 0) return kNone;
  return tombstone_index_.find(hash_id(lock, id), [&](TombstoneIndex index) {
    return tombstones_[index].id == id && tombstones_[index].lock == lock;
  });
}

TombstoneIndex TicketTable::add_tombstone(LockIndex lock, AcquisitionId id, Instant until) {
  const TombstoneIndex index = tombstones_.take();
  tombstones_[index].id = id;
  tombstones_[index].lock = lock;
  tombstone_index_.insert(hash_id(lock, id), index);
  append(locks_[lock].tombstones, tombstones_, index);
  set_until(index, until);
  return index;
}

void TicketTable::set_until(TombstoneIndex index, Instant until) {
  tombstone_ends_.put(index, until, tombstones_[index].id.high, tie(tombstones_));
}

void TicketTable::remove_tombstone(TombstoneIndex index) {
  const Tombstone tombstone = tombstones_[index];
  unlink(locks_[tombstone.lock].tombstones, tombstones_, index);
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
