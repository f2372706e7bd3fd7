// The effect of each command on its own lock. Expiry has run before, admission runs afterwards.

#include "src/machine/machine_impl.h"

namespace holdfast::machine {
namespace {

// Exclusive and shared tickets share a queue; permits have one of their own kind.
constexpr ModeKind family(ModeKind kind) {
  return kind == ModeKind::kPermits ? ModeKind::kPermits : ModeKind::kExclusive;
}

// Counts mean something for permits only.
constexpr Mode normalized(const Mode& mode) {
  return mode.kind == ModeKind::kPermits ? mode : Mode{mode.kind, 1, 1};
}

bool well_formed(const Acquire& acquire) {
  if (acquire.name.empty() || !acquire.id || acquire.ttl <= Duration::zero()) return false;
  if (acquire.may_wait && acquire.waiter_ttl <= Duration::zero()) return false;
  if (acquire.upgrade_of && acquire.mode.kind != ModeKind::kExclusive) return false;
  switch (acquire.mode.kind) {
    case ModeKind::kExclusive:
    case ModeKind::kShared: return true;
    case ModeKind::kPermits: return acquire.mode.permits > 0 && acquire.mode.capacity > 0;
  }
  return false;
}

}  // namespace

Reply LockMachine::Impl::on(const Acquire& acquire) {
  if (!well_formed(acquire)) return {.outcome = Outcome::kInvalid};
  const LockIndex index = own(acquire.name);
  if (index != kNone) {
    const TicketIndex known = table.find_ticket(index, acquire.id);
    // A repeated request must get the first one's grant, not a second one.
    if (known != kNone) return acquire_again(known);
    // This acquisition is over already: a grant would go to nobody for a whole ttl.
    if (table.find_tombstone(index, acquire.id) != kNone) return {.outcome = Outcome::kGone};
  }
  // Tickets that expiry has let in come before the newcomer; so does a Resize that waited.
  if (index != kNone) settle(index);
  if (const auto outcome = refusal(acquire, index)) return {.outcome = *outcome};
  if (!admits_newcomer(acquire, index)) {
    const Lock& lock = table.lock(index);
    if (!acquire.may_wait) {
      return {
          .outcome = Outcome::kBusy, .next_expiry = next_expiry(lock), .opens_at = opens_at(lock)};
    }
    if (acquire.max_waiters != 0 && lock.extras().waiters.count >= acquire.max_waiters) {
      return {.outcome = Outcome::kQueueFull};
    }
    return enter(acquire, index, /*granted=*/false);
  }
  if (!next_token(index == kNone ? Token{} : table.lock(index).last_token)) {
    return {.outcome = Outcome::kExhausted};
  }
  return enter(acquire, own_or_add(acquire.name), /*granted=*/true);
}

Outcome LockMachine::Impl::foresee(const Acquire& acquire) const {
  if (!well_formed(acquire)) return Outcome::kInvalid;
  const LockIndex index = table.find_lock(acquire.name);
  if (index != kNone) {
    const TicketIndex known = table.find_ticket(index, acquire.id);
    if (known != kNone) {
      if (table.ticket(known).system) return Outcome::kInvalid;
      return table.ticket(known).held ? Outcome::kHeld : Outcome::kWaiting;
    }
    if (table.find_tombstone(index, acquire.id) != kNone) return Outcome::kGone;
  }
  if (const auto outcome = refusal(acquire, index)) return *outcome;
  if (!admits_newcomer(acquire, index)) return Outcome::kBusy;
  return next_token(index == kNone ? Token{} : table.lock(index).last_token) ? Outcome::kHeld
                                                                             : Outcome::kExhausted;
}

Reply LockMachine::Impl::acquire_again(TicketIndex index) {
  if (table.ticket(index).system) return {.outcome = Outcome::kInvalid};
  return reply_for(index);
}

// The reason why there can be no ticket for it, now or later.
std::optional<Outcome> LockMachine::Impl::refusal(const Acquire& acquire, LockIndex index) const {
  const bool present = index != kNone && table.lock(index).has_tickets();
  if (present) {
    const Lock& lock = table.lock(index);
    const bool agrees = lock.kind == family(acquire.mode.kind) &&
                        lock.capacity == normalized(acquire.mode).capacity;
    if (!agrees) return Outcome::kMismatch;
  }
  if (normalized(acquire.mode).permits > normalized(acquire.mode).capacity) {
    return Outcome::kTooLarge;
  }
  if (!acquire.upgrade_of) return std::nullopt;

  const TicketIndex base = present ? table.find_ticket(index, acquire.upgrade_of) : kNone;
  if (base == kNone || !table.ticket(base).held || table.ticket(base).kind != ModeKind::kShared) {
    return Outcome::kInvalid;
  }
  // Each of two upgrades would wait for the other's shared ticket.
  if (table.lock(index).extras().upgrade != kNone) return Outcome::kWouldDeadlock;
  return std::nullopt;
}

bool LockMachine::Impl::admits_newcomer(const Acquire& acquire, LockIndex index) const {
  if (index == kNone || !table.lock(index).has_tickets()) return true;
  const Lock& lock = table.lock(index);
  if (acquire.upgrade_of) return lock.held.admits_upgrade();
  return lock.extras().waiters.count == 0 &&
         lock.held.admits(normalized(acquire.mode), lock.capacity);
}

Reply LockMachine::Impl::enter(const Acquire& acquire, LockIndex index, bool granted) {
  Lock& lock = table.lock(index);
  if (!lock.has_tickets()) {
    lock.kind = family(acquire.mode.kind);
    lock.capacity = normalized(acquire.mode).capacity;
  }
  const TicketIndex added = table.add_ticket(index, acquire.id, normalized(acquire.mode));
  Ticket& ticket = table.ticket(added);
  ticket.ttl = acquire.ttl;
  ticket.waiter_ttl = acquire.waiter_ttl;
  ticket.owner = acquire.owner;
  if (acquire.upgrade_of) table.link_upgrade(added, table.find_ticket(index, acquire.upgrade_of));
  ticket.lease = granted ? acquire.ttl : acquire.waiter_ttl;
  table.set_end(added, saturating_add(now, ticket.lease));
  if (granted) {
    grant(added);
  } else {
    table.wait(added);
    emit_ticket(EffectKind::kQueued, added);
  }
  return reply_for(added);
}

Reply LockMachine::Impl::on(const Renew& renew) {
  const LockIndex index = own(renew.name);
  const TicketIndex found = index == kNone ? kNone : table.find_ticket(index, renew.id);
  if (found == kNone || table.ticket(found).system) return {.outcome = Outcome::kGone};
  const Ticket& ticket = table.ticket(found);
  // A late or repeated renewal changes nothing, but its sender still learns the state.
  if (renew.seq <= ticket.seq) return reply_for(found);
  const Duration length = ticket.held ? renew.ttl : renew.waiter_ttl;
  if (length <= Duration::zero()) return {.outcome = Outcome::kInvalid};

  extend(found, length, renew.seq);
  if (ticket.seq == renew.seq) emit_ticket(EffectKind::kExtended, found);
  return reply_for(found);
}

Reply LockMachine::Impl::on(const Release& release) {
  return give_back(release.name, release.id, release.tombstone);
}

Reply LockMachine::Impl::on(const Cancel& cancel) {
  return give_back(cancel.name, cancel.id, cancel.tombstone);
}

Reply LockMachine::Impl::give_back(std::string_view name, AcquisitionId id, Duration tombstone) {
  if (name.empty() || !id) return {.outcome = Outcome::kInvalid};
  const LockIndex index = own(name);
  const TicketIndex found = index == kNone ? kNone : table.find_ticket(index, id);
  if (found == kNone) {
    // The acquire may still be on its way; without a tombstone it would be granted to nobody.
    if (buries(tombstone)) bury(own_or_add(name), id, tombstone);
    return {.outcome = Outcome::kGone};
  }
  const bool held = table.ticket(found).held;
  end_ticket(found, held ? EffectKind::kReleased : EffectKind::kCancelled, tombstone);
  return {.outcome = held ? Outcome::kReleased : Outcome::kCancelled};
}

Reply LockMachine::Impl::on(const Downgrade& downgrade) {
  const LockIndex index = own(downgrade.name);
  const TicketIndex found = index == kNone ? kNone : table.find_ticket(index, downgrade.id);
  if (found == kNone || !table.ticket(found).held) return {.outcome = Outcome::kNotHeld};
  switch (table.ticket(found).kind) {
    case ModeKind::kPermits: return {.outcome = Outcome::kMismatch};
    case ModeKind::kShared: return {.outcome = Outcome::kDone};
    case ModeKind::kExclusive: break;
  }
  if (table.base_of(found) != kNone) {
    // The upgrade's shared ticket is there still, so ending the upgrade is the downgrade.
    end_ticket(found, EffectKind::kReleased, downgrade.tombstone);
  } else {
    table.weaken(found);
    emit_ticket(EffectKind::kDowngraded, found);
  }
  return {.outcome = Outcome::kDone};
}

Reply LockMachine::Impl::on(const Break& command) {
  const LockIndex index = own(command.name);
  if (index == kNone) return {.outcome = Outcome::kNotHeld};
  TicketIndex at = table.lock(index).holders.head;
  // The token decides: an operator who looked a moment ago must not end the next holder's grant.
  while (at != kNone && table.ticket(at).token() != command.token) at = table.ticket(at).links.next;
  if (at == kNone) return {.outcome = Outcome::kNotHeld};
  end_ticket(at, EffectKind::kBroken, command.tombstone, command.by);
  return {.outcome = Outcome::kReleased};
}

Reply LockMachine::Impl::on(const Resize& resize) {
  if (!resize.id || resize.capacity == 0) return {.outcome = Outcome::kInvalid};
  const LockIndex index = own(resize.name);
  if (index == kNone || !table.lock(index).has_tickets()) return {.outcome = Outcome::kNotHeld};
  Lock& lock = table.lock(index);
  if (lock.kind != ModeKind::kPermits) return {.outcome = Outcome::kMismatch};
  if (table.find_tombstone(index, resize.id) != kNone) return {.outcome = Outcome::kGone};
  const TicketIndex known = table.find_ticket(index, resize.id);
  if (known != kNone && known != lock.extras().shrink) return {.outcome = Outcome::kInvalid};
  if (known != kNone && lock.capacity - table.ticket(known).permits == resize.capacity) {
    settle(index);  // An expiry in this step may have made room for it.
    if (table.find_ticket(index, resize.id) == kNone) return {.outcome = Outcome::kDone};
    return reply_for(known);  // A repeated request keeps its place.
  }
  // A later Resize replaces one that waits: a lock has one intended N.
  const TicketIndex shrink = lock.extras().shrink;
  if (shrink != kNone) end_ticket(shrink, EffectKind::kCancelled, Duration::zero());
  if (!lock.has_tickets()) return {.outcome = Outcome::kNotHeld};
  if (resize.capacity < lock.capacity) return queue_shrink(resize, index);
  if (resize.capacity > lock.capacity) {
    lock.capacity = resize.capacity;
    emit(EffectKind::kResized, index).mode = Mode::of_permits(1, lock.capacity);
  }
  return {.outcome = Outcome::kDone};
}

Reply LockMachine::Impl::queue_shrink(const Resize& resize, LockIndex index) {
  settle(index);  // As for a newcomer: those let in by now stand before it.
  Lock& lock = table.lock(index);
  const std::uint32_t difference = lock.capacity - resize.capacity;
  const TicketIndex added =
      table.add_ticket(index, resize.id, Mode::of_permits(difference, lock.capacity));
  table.mark_system(added);
  table.wait(added);
  emit_ticket(EffectKind::kQueued, added);
  if (next_admissible(lock) != added) return reply_for(added);
  shrink(added);
  return {.outcome = Outcome::kDone};
}

Reply LockMachine::Impl::on(const SetValue& set) {
  if (set.value.size() > limits.max_value) return {.outcome = Outcome::kTooLarge};
  const LockIndex index = own(set.name);
  const TicketIndex found = index == kNone ? kNone : table.find_ticket(index, set.id);
  if (found == kNone || !table.ticket(found).held) return {.outcome = Outcome::kNotHeld};
  Lock& lock = table.lock(index);
  if (lock.extras().value != set.value) {
    lock.make_extras().value = set.value;
    Effect& effect = emit(EffectKind::kValueSet, index);
    effect.id = set.id;
    effect.value = set.value;
  }
  return {.outcome = Outcome::kDone};
}

Reply LockMachine::Impl::on(const Keep& keep) {
  if (keep.value && keep.value->size() > limits.max_value) return {.outcome = Outcome::kTooLarge};
  if (keep.ttl <= Duration::zero()) return {.outcome = Outcome::kInvalid};
  const LockIndex index = own(keep.name);
  const TicketIndex found = index == kNone ? kNone : table.find_ticket(index, keep.id);
  if (found == kNone || !table.ticket(found).held) return {.outcome = Outcome::kNotHeld};
  Ticket& ticket = table.ticket(found);
  // A request with a higher number has been applied since, so this one is late.
  if (keep.seq < ticket.seq) return {.outcome = Outcome::kNotHeld};
  if (keep.seq == ticket.seq) return {.outcome = Outcome::kDone};
  ticket.seq = keep.seq;
  ticket.lease = keep.ttl;
  table.set_end(found, saturating_add(now, keep.ttl));
  emit_ticket(EffectKind::kExtended, found);
  if (!keep.value) return {.outcome = Outcome::kDone};
  return on(SetValue{keep.name, keep.id, *keep.value});
}

Reply LockMachine::Impl::on(const Tick&) { return {.outcome = Outcome::kDone}; }

}  // namespace holdfast::machine
