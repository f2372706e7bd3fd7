#include "src/machine/testing/effect_observer.h"

#include <algorithm>
#include <utility>

#include "src/machine/ticket_of.h"

namespace holdfast::machine::testing {
namespace {

TicketImage* find(LockImage& lock, AcquisitionId id) {
  return const_cast<TicketImage*>(EffectObserver::ticket(&lock, id));
}

}  // namespace

const TicketImage* EffectObserver::ticket(const LockImage* lock, AcquisitionId id) {
  if (lock == nullptr) return nullptr;
  for (const TicketImage& ticket : lock->tickets) {
    if (ticket.id == id) return &ticket;
  }
  return nullptr;
}

bool EffectObserver::see(const Effect& effect) {
  switch (effect.kind) {
    case EffectKind::kQueued: return queued(effect);
    case EffectKind::kGranted: return granted(effect);
    case EffectKind::kExtended: return extended(effect);
    case EffectKind::kReleased:
    case EffectKind::kCancelled:
    case EffectKind::kExpired:
    case EffectKind::kBroken:
    case EffectKind::kDropped: return ended(effect);
    case EffectKind::kDowngraded: return downgraded(effect);
    case EffectKind::kResized: return resized(effect);
    case EffectKind::kValueSet: locks_[effect.name].value = effect.value; return true;
    case EffectKind::kTombstone: return buried(effect);
    case EffectKind::kTombstoneDropped: return unburied(effect);
    case EffectKind::kForgotten: return forgotten(effect);
  }
  return false;
}

MachineImage EffectObserver::image() const {
  MachineImage image = image_;
  for (const auto& [name, lock] : locks_) image.locks.push_back(lock);
  return image;
}

const LockImage* EffectObserver::lock(const std::string& name) const {
  const auto found = locks_.find(name);
  return found == locks_.end() ? nullptr : &found->second;
}

bool EffectObserver::queued(const Effect& effect) {
  LockImage& lock = locks_[effect.name];
  if (find(lock, effect.id) != nullptr || effect.order < lock.next_order) return false;
  for (const TombstoneImage& tombstone : lock.tombstones) {
    if (tombstone.id == effect.id) return false;
  }
  lock.name = effect.name;
  lock.kind = effect.mode.kind == ModeKind::kPermits ? ModeKind::kPermits : ModeKind::kExclusive;
  lock.capacity = effect.mode.capacity;
  lock.next_order = effect.order + 1;
  lock.tickets.push_back(ticket_of(effect));
  return true;
}

bool EffectObserver::granted(const Effect& effect) {
  if (find(locks_[effect.name], effect.id) == nullptr && !queued(effect)) return false;
  LockImage& lock = locks_[effect.name];
  TicketImage& ticket = *find(lock, effect.id);
  if (ticket.held || effect.lease_end < ticket.lease_end) return false;
  if (effect.token <= lock.last_token || effect.token <= image_.floor) return false;
  ticket.held = true;
  ticket.token = lock.last_token = effect.token;
  ticket.lease_end = effect.lease_end;
  ticket.seq = effect.seq;
  ticket.lease = effect.lease;
  return true;
}

bool EffectObserver::extended(const Effect& effect) {
  TicketImage* ticket = find(locks_[effect.name], effect.id);
  if (ticket == nullptr) return false;
  const bool may_move_back = expects_keeps_ && ticket->held && effect.seq > ticket->seq;
  if (effect.lease_end <= ticket->lease_end && !may_move_back) return false;
  ticket->lease_end = effect.lease_end;
  ticket->seq = effect.seq;
  ticket->lease = effect.lease;
  return true;
}

bool EffectObserver::ended(const Effect& effect) {
  LockImage& lock = locks_[effect.name];
  const TicketImage* ticket = find(lock, effect.id);
  if (ticket == nullptr || ticket->held != effect.was_holder) return false;
  const bool of_holder = effect.kind == EffectKind::kReleased || effect.kind == EffectKind::kBroken;
  const bool of_waiter =
      effect.kind == EffectKind::kCancelled || effect.kind == EffectKind::kDropped;
  if ((of_holder && !ticket->held) || (of_waiter && ticket->held)) return false;
  if (effect.kind == EffectKind::kExpired && ticket->lease_end > image_.now) {
    // Only with the shared ticket that it upgrades.
    const TicketImage* base = find(lock, ticket->upgrade_of);
    if (base == nullptr || base->lease_end > image_.now) return false;
  }
  std::erase_if(lock.tickets, [&](const TicketImage& each) { return each.id == effect.id; });
  return true;
}

bool EffectObserver::downgraded(const Effect& effect) {
  TicketImage* ticket = find(locks_[effect.name], effect.id);
  if (ticket == nullptr || !ticket->held || effect.token != ticket->token) return false;
  ticket->mode = Mode::shared();
  return true;
}

bool EffectObserver::resized(const Effect& effect) {
  LockImage& lock = locks_[effect.name];
  lock.capacity = effect.mode.capacity;
  if (effect.id) {
    std::erase_if(lock.tickets, [&](const TicketImage& each) { return each.id == effect.id; });
  }
  for (TicketImage& ticket : lock.tickets) ticket.mode.capacity = lock.capacity;
  return true;
}

bool EffectObserver::buried(const Effect& effect) {
  LockImage& lock = locks_[effect.name];
  lock.name = effect.name;
  if (find(lock, effect.id) != nullptr) return false;
  std::erase_if(lock.tombstones, [&](const TombstoneImage& t) { return t.id == effect.id; });
  const TombstoneImage tombstone{effect.id, effect.lease_end};
  const auto place = std::lower_bound(
      lock.tombstones.begin(), lock.tombstones.end(), tombstone,
      [](const TombstoneImage& a, const TombstoneImage& b) { return a.id < b.id; });
  lock.tombstones.insert(place, tombstone);
  return true;
}

bool EffectObserver::unburied(const Effect& effect) {
  return std::erase_if(locks_[effect.name].tombstones,
                       [&](const TombstoneImage& t) { return t.id == effect.id; }) == 1;
}

bool EffectObserver::forgotten(const Effect& effect) {
  const LockImage& lock = locks_[effect.name];
  const bool idle = lock.tickets.empty() && lock.tombstones.empty() && lock.value.empty();
  if (!idle || effect.token != lock.last_token) return false;
  image_.floor = std::max(image_.floor, effect.token);
  locks_.erase(effect.name);
  return true;
}

}  // namespace holdfast::machine::testing
