#include "src/machine/lock_machine.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "src/machine/machine_impl.h"

namespace holdfast::machine {
namespace {

// Bounds the cost of a heartbeat behind ten thousand others. The position and the next expiry are
// hints, so they may be approximate beyond it.
constexpr std::uint32_t kWalk = 64;
// A longer queue is not searched for what is over: all that is over ends, of all locks.
constexpr std::uint32_t kLongQueue = 1'024;

}  // namespace

LockMachine::LockMachine(Token floor, Limits limits)
    : impl_(std::make_unique<Impl>(floor, limits)) {}
LockMachine::~LockMachine() = default;
LockMachine::LockMachine(LockMachine&&) noexcept = default;
LockMachine& LockMachine::operator=(LockMachine&&) noexcept = default;

Reply LockMachine::apply(const Command& command, Effects& effects) {
  return impl_->apply(command, effects);
}

Outcome LockMachine::foresee(const Acquire& acquire) const { return impl_->foresee(acquire); }

std::optional<Mode> LockMachine::mode_of(std::string_view name, AcquisitionId id) const {
  const LockIndex index = impl_->table.find_lock(name);
  if (index == kNone) return std::nullopt;
  const TicketIndex found = impl_->table.find_ticket(index, id);
  if (found == kNone) return std::nullopt;
  const Ticket& ticket = impl_->table.ticket(found);
  return Mode{ticket.kind, ticket.permits, impl_->table.lock(index).capacity};
}

bool LockMachine::lengthens(const Renew& renew) const {
  const LockIndex index = impl_->table.find_lock(renew.name);
  if (index == kNone) return false;
  const TicketIndex found = impl_->table.find_ticket(index, renew.id);
  if (found == kNone) return false;
  const Ticket& ticket = impl_->table.ticket(found);
  return ticket.held ? renew.ttl > ticket.ttl : renew.waiter_ttl > ticket.waiter_ttl;
}

std::optional<Instant> LockMachine::next_event() const {
  if (!impl_->table.pending().empty()) return impl_->now;
  const auto next = impl_->next_end();
  return next ? std::max(*next, impl_->now) : next;
}

bool LockMachine::admits_more() const { return !impl_->table.pending().empty(); }

Instant LockMachine::now() const { return impl_->now; }
Token LockMachine::floor() const { return impl_->floor; }

void LockMachine::set_token_ceiling(std::uint64_t ceiling) {
  impl_->limits.token_ceiling = ceiling;
  std::vector<LockIndex> waiting;
  for (const TicketTable::Named& named : impl_->table.exhausted()) waiting.push_back(named.lock);
  for (const LockIndex index : waiting) {
    if (!impl_->next_token(impl_->table.lock(index).last_token)) continue;
    impl_->table.set_exhausted(index, false);
    impl_->table.set_pending(index, true);
  }
}

void LockMachine::check_last_step() const { impl_->check_last_step(); }
void LockMachine::check_invariants() const { impl_->check_all(); }

Reply LockMachine::Impl::apply(const Command& command, Effects& out) {
  now = std::max(now, command.at);
  effects = &out;
  // A step has a bounded cost. Whoever could be admitted beyond it stays pending for the next one.
  budget = std::max(limits.admissions_per_step, 1U);
  own_lock = kNone;
  subject = kNone;
  touched.clear();

  // First, so that no command sees a lease that is over: a late renewal cannot revive it.
  expire_due(command);
  Reply reply = std::visit([this](const auto& action) { return on(action); }, command.action);
  finish();
  describe(reply);
  check_last_step();
  return reply;
}

void LockMachine::Impl::expire_due(const Command& command) {
  for (std::uint32_t left = command.others; left > 0; --left) {
    if (!expire_next()) return;
  }
  const auto next = next_end();
  if (!next || *next > now) return;
  // The locks that this step looks at must have nothing over, or a waiter whose lease is over would
  // be granted.
  std::vector<LockIndex> looked_at = touched;
  for (const TicketTable::Named& each : table.pending()) looked_at.push_back(each.lock);
  const LockIndex own = table.find_lock(
      std::visit([](const auto& action) { return std::string_view(action.name); }, command.action));
  if (own != kNone) looked_at.push_back(own);
  if (own != kNone && table.lock(own).ticket_count() > kLongQueue) {
    while (expire_next()) continue;
  }
  for (const LockIndex index : looked_at) expire_all_of(index);
}

bool LockMachine::Impl::expire_next() {
  if (!table.ticket_ends().empty() && table.ticket_ends().top_end() <= now) {
    end_ticket(table.ticket_ends().top(), EffectKind::kExpired, limits.expiry_tombstone);
    return true;
  }
  if (!table.tombstone_ends().empty() && table.tombstone_ends().top_end() <= now) {
    drop_tombstone(table.tombstone_ends().top());
    return true;
  }
  return false;
}

// A tombstone that is over may stay: it refuses its id for a moment longer.
void LockMachine::Impl::expire_all_of(LockIndex index) {
  std::vector<TicketIndex> over;
  for (const List* list : table.lock(index).ticket_lists()) {
    for (TicketIndex at = list->head; at != kNone; at = table.ticket(at).links.next) {
      if (table.ticket_ends().contains(at) && table.end_of(at) <= now) over.push_back(at);
    }
  }
  std::sort(over.begin(), over.end(), [this](TicketIndex a, TicketIndex b) {
    return std::pair(table.end_of(a), table.ticket(a).id) <
           std::pair(table.end_of(b), table.ticket(b).id);
  });
  for (const TicketIndex at : over) {
    // An upgrade has ended with its shared ticket.
    if (!table.ticket_ends().contains(at)) continue;
    end_ticket(at, EffectKind::kExpired, limits.expiry_tombstone);
  }
}

// The earliest end of a lease or a tombstone.
std::optional<Instant> LockMachine::Impl::next_end() const {
  std::optional<Instant> next;
  for (const ExpiryHeap* ends : {&table.ticket_ends(), &table.tombstone_ends()}) {
    if (!ends->empty() && (!next || ends->top_end() < *next)) next = ends->top_end();
  }
  return next;
}

void LockMachine::Impl::drop_tombstone(TombstoneIndex index) {
  const LockIndex lock = table.tombstone(index).lock;
  touch(lock);
  emit(EffectKind::kTombstoneDropped, lock).id = table.tombstone(index).id;
  table.remove_tombstone(index);
}

void LockMachine::Impl::finish() {
  // The command's own lock first: its reply must not depend on a backlog at other locks.
  if (own_lock != kNone) settle(own_lock);
  for (const LockIndex index : touched) note_leftover(index);
  while (budget > 0 && !table.pending().empty()) {
    // The order is that of the names: a restored machine has other slots, but must go on in the
    // same order.
    const LockIndex index = table.pending().begin()->lock;
    touch(index);
    settle(index);
    note_leftover(index);
  }
  // The loop counts, because forgetting a lock changes the list.
  for (std::size_t i = 0; i < touched.size(); ++i) {
    table.lock(touched[i]).touched = false;
    forget_if_idle(touched[i]);
  }
}

// Admits in order for as long as the step's limit allows.
void LockMachine::Impl::settle(LockIndex index) {
  while (budget > 0) {
    const Lock& lock = table.lock(index);
    const TicketIndex next = next_admissible(lock);
    if (next == kNone) return;
    if (table.ticket(next).system) {
      shrink(next);
    } else if (next_token(lock.last_token)) {
      grant(next);
    } else {
      return;
    }
    --budget;
  }
}

TicketIndex LockMachine::Impl::next_admissible(const Lock& lock) const {
  const auto admits = [&](TicketIndex index) {
    return lock.held.admits(table.mode_of(table.ticket(index)), lock.capacity);
  };
  // An upgrade passes the queue, because the waiters wait for its own shared ticket.
  if (upgrade_is_next(lock)) return lock.extras().upgrade;
  // Only the head may come in: admitting a compatible waiter behind it would starve it.
  const LockExtras& extras = lock.extras();
  const TicketIndex head = extras.waiters.head;
  return head != kNone && head != extras.upgrade && admits(head) ? head : kNone;
}

bool LockMachine::Impl::upgrade_is_next(const Lock& lock) const {
  const TicketIndex upgrade = lock.extras().upgrade;
  return upgrade != kNone && !table.ticket(upgrade).held && lock.held.admits_upgrade();
}

// The grant inherits the waiter's lease. Its end, its length and the request that defined them
// stay, since the new holder counts its deadline from its own heartbeat.
void LockMachine::Impl::grant(TicketIndex index) {
  take_token(index);
  table.hold(index);
  emit_ticket(EffectKind::kGranted, index);
}

void LockMachine::Impl::shrink(TicketIndex index) {
  const Ticket ticket = table.ticket(index);
  table.remove_ticket(index);
  Lock& lock = table.lock(ticket.lock);
  lock.capacity -= ticket.permits;
  Effect& effect = emit(EffectKind::kResized, ticket.lock);
  effect.id = ticket.id;
  effect.mode = Mode::of_permits(ticket.permits, lock.capacity);
  drop_larger_than(ticket.lock, lock.capacity);
}

void LockMachine::Impl::drop_larger_than(LockIndex index, std::uint32_t capacity) {
  for (TicketIndex at = table.lock(index).extras().waiters.head; at != kNone;) {
    const Ticket& ticket = table.ticket(at);
    const TicketIndex next = ticket.links.next;
    // The new capacity can never admit such a waiter, and it would block everyone behind it.
    if (!ticket.system && ticket.permits > capacity) {
      emit_ticket(EffectKind::kDropped, at);
      if (subject == at) subject = kNone;
      table.remove_ticket(at);
    }
    at = next;
  }
}

// Files the lock under what it still waits for: another step, or tokens.
void LockMachine::Impl::note_leftover(LockIndex index) {
  const Lock& lock = table.lock(index);
  const TicketIndex next = next_admissible(lock);
  const bool admissible = next != kNone;
  const bool has_token =
      admissible && (table.ticket(next).system || next_token(lock.last_token).has_value());
  table.set_pending(index, admissible && has_token);
  table.set_exhausted(index, admissible && !has_token);
}

void LockMachine::Impl::forget_if_idle(LockIndex index) {
  const Lock& lock = table.lock(index);
  if (!lock.idle()) return;
  // The floor keeps tokens of this name growing although the lock's own counter goes.
  floor = std::max(floor, lock.last_token);
  emit(EffectKind::kForgotten, index).token = lock.last_token;
  table.remove_lock(index);
}

LockIndex LockMachine::Impl::own(std::string_view name) {
  own_lock = table.find_lock(name);
  if (own_lock != kNone) touch(own_lock);
  return own_lock;
}

LockIndex LockMachine::Impl::own_or_add(std::string_view name) {
  if (own_lock == kNone) {
    own_lock = table.add_lock(name);
    touch(own_lock);
  }
  return own_lock;
}

void LockMachine::Impl::touch(LockIndex index) {
  if (std::exchange(table.lock(index).touched, true)) return;
  touched.push_back(index);
}

// The upgrade of a ticket ends before the ticket, so that what effects build is legal throughout.
void LockMachine::Impl::end_ticket(TicketIndex index, EffectKind kind, Duration tombstone,
                                   const OwnerPtr& by) {
  const TicketIndex upgrade = table.lock(table.ticket(index).lock).extras().upgrade;
  if (upgrade != kNone && table.base_of(upgrade) == index) {
    const bool left = kind != EffectKind::kExpired && !table.ticket(upgrade).held;
    end_one(upgrade, left ? EffectKind::kCancelled : kind, tombstone, by);
  }
  end_one(index, kind, tombstone, by);
}

void LockMachine::Impl::end_one(TicketIndex index, EffectKind kind, Duration tombstone,
                                const OwnerPtr& by) {
  const LockIndex lock = table.ticket(index).lock;
  const AcquisitionId id = table.ticket(index).id;
  Effect& effect = emit_ticket(kind, index);
  if (kind == EffectKind::kBroken) effect.owner = by;
  touch(lock);
  table.remove_ticket(index);
  bury(lock, id, tombstone);
}

void LockMachine::Impl::bury(LockIndex index, AcquisitionId id, Duration tombstone) {
  if (!buries(tombstone)) return;
  const Instant until = saturating_add(now, tombstone);
  const TombstoneIndex found = table.find_tombstone(index, id);
  if (found == kNone) {
    table.add_tombstone(index, id, until);
  } else if (table.until_of(found) < until) {
    table.set_until(found, until);
  } else {
    return;
  }
  Effect& effect = emit(EffectKind::kTombstone, index);
  effect.id = id;
  effect.lease_end = until;
  // The one that ends first goes: it is the least likely to be needed.
  while (table.tombstone_count() > limits.max_tombstones) {
    drop_tombstone(table.tombstone_ends().top());
  }
}

void LockMachine::Impl::extend(TicketIndex index, Duration length, std::uint64_t seq) {
  Ticket& ticket = table.ticket(index);
  const Instant end = saturating_add(now, length);
  // A shorter end would break what the sender of the earlier renewal counts on. The number stays,
  // too: (seq, lease) names the request that set the end.
  if (end <= table.end_of(index)) return;
  ticket.seq = seq;
  ticket.lease = length;
  table.set_end(index, end);
}

std::optional<Token> LockMachine::Impl::next_token(Token last) const {
  const std::uint64_t counter = std::max(last.counter, floor.counter);
  if (counter == UINT64_MAX || counter >= limits.token_ceiling) return std::nullopt;
  return Token{floor.epoch, counter + 1};
}

void LockMachine::Impl::take_token(TicketIndex index) {
  Ticket& ticket = table.ticket(index);
  Lock& lock = table.lock(ticket.lock);
  const std::optional<Token> token = next_token(lock.last_token);
  HOLDFAST_REQUIRE(token && *token > lock.last_token, "tokens grow");
  lock.last_token = *token;
  ticket.set_token(*token);
}

Reply LockMachine::Impl::reply_for(TicketIndex index) {
  subject = index;
  return {.outcome = table.ticket(index).held ? Outcome::kHeld : Outcome::kWaiting};
}

void LockMachine::Impl::describe(Reply& reply) const {
  if (reply.outcome != Outcome::kHeld && reply.outcome != Outcome::kWaiting) return;
  if (subject == kNone) {
    reply = {.outcome = Outcome::kTooLarge};  // It waited, and N fell in this very step.
    return;
  }
  const Ticket& ticket = table.ticket(subject);
  reply.outcome = ticket.held ? Outcome::kHeld : Outcome::kWaiting;
  reply.token = ticket.token();
  reply.lease_end = table.end_of(subject);
  reply.seq = ticket.seq;
  reply.lease = ticket.lease;
  if (ticket.held) return;
  reply.position = position_of(subject);
  reply.next_expiry = next_expiry(table.lock(ticket.lock));
  reply.opens_at = opens_at(table.lock(ticket.lock));
}

std::uint32_t LockMachine::Impl::position_of(TicketIndex index) const {
  if (table.base_of(index) != kNone) return 0;  // An upgrade passes those ahead of it.
  const Ticket& ticket = table.ticket(index);
  std::uint32_t ahead = 0;
  for (TicketIndex at = ticket.links.previous; at != kNone; at = table.ticket(at).links.previous) {
    if (++ahead <= kWalk) continue;
    const List& waiters = table.lock(ticket.lock).extras().waiters;
    // Beyond that the order numbers give an upper bound, since tickets between may have left.
    const std::uint64_t span = ticket.order - table.ticket(waiters.head).order;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(span, waiters.count - 1));
  }
  return ahead;
}

Instant LockMachine::Impl::next_expiry(const Lock& lock) const {
  if (lock.holders.count == 0) return now;
  Instant earliest = Instant::max();
  std::uint32_t left = kWalk;
  for (TicketIndex at = lock.holders.head; at != kNone && left > 0; --left) {
    earliest = std::min(earliest, table.end_of(at));
    at = table.ticket(at).links.next;
  }
  return earliest;
}

// A lease that is no longer than the delay is a waiter's, or of somebody who took it over without
// the delay.
Instant LockMachine::Impl::opens_at(const Lock& lock) const {
  Instant last{};
  if (lock.holders.count > kWalk) return last;
  for (TicketIndex at = lock.holders.head; at != kNone; at = table.ticket(at).links.next) {
    const Ticket& ticket = table.ticket(at);
    const Duration delay = ticket.owner ? ticket.owner->lock_delay : Duration::zero();
    const Instant end = table.end_of(at);
    if (delay <= Duration::zero() || ticket.lease <= delay || end - now > delay) return Instant();
    last = std::max(last, end);
  }
  return last;
}

Effect& LockMachine::Impl::emit(EffectKind kind, LockIndex index) {
  Effect& effect = effects->emplace_back();
  effect.kind = kind;
  effect.name = table.lock(index).name;
  return effect;
}

Effect& LockMachine::Impl::emit_ticket(EffectKind kind, TicketIndex index) {
  const Ticket& ticket = table.ticket(index);
  Effect& effect = emit(kind, ticket.lock);
  effect.id = ticket.id;
  effect.order = ticket.order;
  effect.mode = table.mode_of(ticket);
  const TicketIndex base = table.base_of(index);
  if (base != kNone) effect.upgrade_of = table.ticket(base).id;
  effect.was_holder = ticket.held;
  effect.system = ticket.system;
  effect.token = ticket.token();
  effect.lease_end = table.end_of(index);
  effect.seq = ticket.seq;
  effect.lease = ticket.lease;
  effect.ttl = ticket.ttl;
  effect.waiter_ttl = ticket.waiter_ttl;
  effect.owner = ticket.owner;
  return effect;
}

}  // namespace holdfast::machine
