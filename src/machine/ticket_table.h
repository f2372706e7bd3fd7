// Where locks, tickets and tombstones are kept and found: slots, indexes, lists and the two heaps
// of what ends when. It keeps its parts consistent with each other and decides nothing; what
// happens is decided in machine_impl.h.
//
// Every operation is O(log n) at most in the number of everything, whatever the length of a queue.
//
// Thread-safety: none, like the machine.
// Ownership: a reference to an item stays good until the item is taken out.
#pragma once

#include <cstdint>
#include <set>
#include <string_view>
#include <utility>

#include "src/machine/expiry_heap.h"
#include "src/machine/hash_index.h"
#include "src/machine/lock_state.h"
#include "src/machine/slab.h"

namespace holdfast::machine {

class TicketTable {
 public:
  TicketTable(std::uint64_t hash_seed, std::uint32_t chunk)
      : seed_(hash_seed), locks_(chunk), tickets_(chunk), tombstones_(chunk) {}

  void reserve(std::size_t locks);             // With a ticket each.
  void prefetch(const LockImage& lock) const;  // It is about to be looked for and added.

  Lock& lock(LockIndex index) { return locks_[index]; }
  const Lock& lock(LockIndex index) const { return locks_[index]; }
  Ticket& ticket(TicketIndex index) { return tickets_[index]; }
  const Ticket& ticket(TicketIndex index) const { return tickets_[index]; }
  const Tombstone& tombstone(TombstoneIndex index) const { return tombstones_[index]; }

  LockIndex find_lock(std::string_view name) const;
  LockIndex add_lock(std::string_view name);
  void remove_lock(LockIndex index);  // It is idle.
  std::uint32_t lock_slots() const { return locks_.used(); }
  std::size_t lock_count() const { return locks_.size(); }

  TicketIndex find_ticket(LockIndex lock, AcquisitionId id) const;
  // With the next place in the queue. The ticket stands nowhere until it waits or holds.
  TicketIndex add_ticket(LockIndex lock, AcquisitionId id, const Mode& mode);
  void wait(TicketIndex index);    // The new ticket is a waiter now, the last one.
  void hold(TicketIndex index);    // The new ticket or waiter is a holder now, the newest.
  void weaken(TicketIndex index);  // An exclusive holder is a shared one now.
  void link_upgrade(TicketIndex upgrade, TicketIndex base);
  void mark_system(TicketIndex index);
  // The shared ticket that this ticket upgrades; kNone: it is no upgrade.
  TicketIndex base_of(TicketIndex index) const {
    const LockExtras& extras = locks_[tickets_[index].lock].extras();
    return extras.upgrade == index ? extras.upgrade_base : kNone;
  }
  void set_end(TicketIndex index, Instant end);
  // The end of the ticket's lease. A system ticket has no lease: zero.
  Instant end_of(TicketIndex index) const {
    return ticket_ends_.contains(index) ? ticket_ends_.end_of(index) : Instant{};
  }
  void remove_ticket(TicketIndex index);
  std::size_t ticket_count() const { return tickets_.size(); }
  std::size_t indexed_count() const { return ticket_index_.size(); }
  Mode mode_of(const Ticket& ticket) const {
    return {ticket.kind, ticket.permits, locks_[ticket.lock].capacity};
  }

  TombstoneIndex find_tombstone(LockIndex lock, AcquisitionId id) const;
  TombstoneIndex add_tombstone(LockIndex lock, AcquisitionId id, Instant until);
  void set_until(TombstoneIndex index, Instant until);
  Instant until_of(TombstoneIndex index) const { return tombstone_ends_.end_of(index); }
  void remove_tombstone(TombstoneIndex index);
  std::size_t tombstone_count() const { return tombstones_.size(); }

  const ExpiryHeap& ticket_ends() const { return ticket_ends_; }
  const ExpiryHeap& tombstone_ends() const { return tombstone_ends_; }

  // Locks whose admissions did not fit into a step, and locks that found no token. They are kept by
  // name, so that a restored machine goes on in the same order.
  struct Named {
    std::string_view name;
    LockIndex lock;
    friend bool operator<(const Named& a, const Named& b) { return a.name < b.name; }
  };
  const std::set<Named>& pending() const { return pending_; }
  void set_pending(LockIndex index, bool pending);
  void set_exhausted(LockIndex index, bool exhausted);
  const std::set<Named>& exhausted() const { return exhausted_; }

 private:
  // Equal ends are ordered by id, then by lock name.
  template <class Items>
  auto tie(const Items& items) const {
    return [this, &items](std::uint32_t a, std::uint32_t b) {
      if (items[a].id != items[b].id) return items[a].id < items[b].id;
      return locks_[items[a].lock].name < locks_[items[b].lock].name;
    };
  }

  static std::uint32_t first_bits(AcquisitionId id) {
    return static_cast<std::uint32_t>(id.high >> 32U);
  }

  // A lock with few tickets has none of them in the index, because a walk finds them as fast.
  void enter_index(TicketIndex index);
  void leave_index(TicketIndex index);

  std::uint64_t hash_id(LockIndex lock, AcquisitionId id) const {
    return mix(locks_[lock].hash ^ id.high, id.low);
  }

  std::uint64_t seed_;
  Slab<Lock> locks_;
  Slab<Ticket> tickets_;
  Slab<Tombstone> tombstones_;
  HashIndex lock_index_;
  HashIndex ticket_index_;
  HashIndex tombstone_index_;
  ExpiryHeap ticket_ends_;
  ExpiryHeap tombstone_ends_;
  std::set<Named> pending_;
  std::set<Named> exhausted_;
};

}  // namespace holdfast::machine
