#include "src/machine/testing/reference_model.h"

#include <algorithm>
#include <tuple>
#include <variant>
#include <vector>

namespace holdfast::machine::testing {
namespace {

TicketImage* ticket_of(LockImage& lock, AcquisitionId id) {
  for (TicketImage& ticket : lock.tickets) {
    if (ticket.id == id) return &ticket;
  }
  return nullptr;
}

const TicketImage* upgrade_in(const LockImage& lock) {
  for (const TicketImage& ticket : lock.tickets) {
    if (ticket.upgrade_of) return &ticket;
  }
  return nullptr;
}

Mode plain(Mode mode) {
  if (mode.kind != ModeKind::kPermits) mode.permits = mode.capacity = 1;
  return mode;
}

bool both_permits(const Mode& a, const Mode& b) {
  return a.kind == ModeKind::kPermits && b.kind == ModeKind::kPermits;
}

// The rule: compatible with every ticket before it, within the capacity.
bool may_hold(const LockImage& lock, const TicketImage& ticket) {
  std::uint64_t sum = ticket.mode.permits;
  for (const TicketImage& other : lock.tickets) {
    const bool linked = other.id == ticket.id || other.id == ticket.upgrade_of;
    const bool before = other.held || (!ticket.upgrade_of && other.order < ticket.order);
    if (linked || !before) continue;
    const bool both_shared =
        other.mode.kind == ModeKind::kShared && ticket.mode.kind == ModeKind::kShared;
    if (!both_shared && !both_permits(other.mode, ticket.mode)) return false;
    sum += other.mode.permits;
  }
  return ticket.mode.kind != ModeKind::kPermits || sum <= lock.capacity;
}

bool agrees(const LockImage& lock, const Acquire& acquire) {
  const bool permits = acquire.mode.kind == ModeKind::kPermits;
  return permits == (lock.kind == ModeKind::kPermits) &&
         plain(acquire.mode).capacity == lock.capacity;
}

Reply invalid() { return {.outcome = Outcome::kInvalid}; }

Instant later(Instant now, Duration length) {
  return length > Instant::max() - now ? Instant::max() : now + length;
}

}  // namespace

Reply ReferenceModel::apply(const Command& command) {
  now_ = std::max(now_, command.at);
  budget_ = limits_.admissions_per_step;
  own_.clear();
  subject_ = {};
  expire();
  Reply reply = std::visit([this](const auto& action) { return on(action); }, command.action);
  if (LockImage* lock = find(own_)) admit(*lock);
  for (auto& [name, lock] : locks_) admit(lock);
  if (subject_) {
    LockImage& lock = *find(own_);
    reply =
        ticket_of(lock, subject_) ? describe(lock, subject_) : Reply{.outcome = Outcome::kTooLarge};
  }
  forget();
  return reply;
}

MachineImage ReferenceModel::snapshot() const {
  MachineImage image;
  image.now = now_;
  image.floor = floor_;
  for (const auto& [name, lock] : locks_) image.locks.push_back(lock);
  return image;
}

void ReferenceModel::expire() {
  for (auto& [name, lock] : locks_) {
    std::vector<AcquisitionId> over;
    for (const TicketImage& ticket : lock.tickets) {
      if (!ticket.system && ticket.lease_end <= now_) over.push_back(ticket.id);
    }
    for (const AcquisitionId id : over) take_out(lock, id, limits_.expiry_tombstone);
    std::erase_if(lock.tombstones, [&](const TombstoneImage& t) { return t.until <= now_; });
  }
}

Reply ReferenceModel::on(const Acquire& a) {
  const bool permits = a.mode.kind == ModeKind::kPermits;
  const bool no_count = permits && (a.mode.permits == 0 || a.mode.capacity == 0);
  if (a.name.empty() || !a.id || a.ttl.count() <= 0 || no_count) return invalid();
  if (a.may_wait && a.waiter_ttl.count() <= 0) return invalid();
  if (a.upgrade_of && a.mode.kind != ModeKind::kExclusive) return invalid();
  own_ = a.name;
  LockImage* lock = find(a.name);
  if (lock == nullptr) return a.upgrade_of ? invalid() : join(a, nullptr);
  if (TicketImage* ticket = ticket_of(*lock, a.id)) {
    if (ticket->system) return invalid();
    subject_ = a.id;
    return {};
  }
  for (const TombstoneImage& tombstone : lock->tombstones) {
    if (tombstone.id == a.id) return {.outcome = Outcome::kGone};
  }
  admit(*lock);
  const bool used = !lock->tickets.empty();
  if (used && !agrees(*lock, a)) return {.outcome = Outcome::kMismatch};
  if (permits && a.mode.permits > a.mode.capacity) return {.outcome = Outcome::kTooLarge};
  if (a.upgrade_of) {
    const TicketImage* base = ticket_of(*lock, a.upgrade_of);
    const bool may = base != nullptr && base->held && base->mode.kind == ModeKind::kShared;
    if (!may) return invalid();
    if (upgrade_in(*lock) != nullptr) return {.outcome = Outcome::kWouldDeadlock};
  }
  return join(a, lock);
}

Reply ReferenceModel::join(const Acquire& a, LockImage* lock) {
  if (plain(a.mode).permits > plain(a.mode).capacity) return {.outcome = Outcome::kTooLarge};
  LockImage joined = lock != nullptr ? *lock : LockImage{};
  TicketImage ticket{.id = a.id, .order = joined.next_order++, .mode = plain(a.mode)};
  ticket.upgrade_of = a.upgrade_of;
  ticket.ttl = a.ttl;
  ticket.waiter_ttl = a.waiter_ttl;
  ticket.owner = a.owner;
  joined.name = a.name;
  joined.kind = a.mode.kind == ModeKind::kPermits ? ModeKind::kPermits : ModeKind::kExclusive;
  joined.capacity = ticket.mode.capacity;

  // In a fair queue a newcomer that someone waits before is blocked by him, or by what blocks him,
  // or waits for a later step.
  const auto waits = std::count_if(joined.tickets.begin(), joined.tickets.end(),
                                   [](const TicketImage& t) { return !t.held; });
  const bool behind = waits != 0 && !a.upgrade_of;
  const bool granted = !behind && may_hold(joined, ticket);
  if (!granted && !a.may_wait) return {.outcome = Outcome::kBusy, .next_expiry = soonest(joined)};
  if (!granted && a.max_waiters != 0 && waits >= static_cast<std::ptrdiff_t>(a.max_waiters)) {
    return {.outcome = Outcome::kQueueFull};
  }
  if (granted && !token_left(lock)) return {.outcome = Outcome::kExhausted};
  ticket.lease = granted ? a.ttl : a.waiter_ttl;
  ticket.lease_end = later(now_, ticket.lease);
  joined.tickets.push_back(ticket);
  if (granted) grant(joined, joined.tickets.back());
  locks_.insert_or_assign(joined.name, joined);
  subject_ = a.id;
  return {};
}

Instant ReferenceModel::soonest(const LockImage& lock) const {
  Instant soonest = Instant::max();
  bool anyone = false;
  for (const TicketImage& ticket : lock.tickets) {
    if (!ticket.held) continue;
    soonest = std::min(soonest, ticket.lease_end);
    anyone = true;
  }
  return anyone ? soonest : now_;
}

Reply ReferenceModel::on(const Renew& renew) {
  own_ = renew.name;
  LockImage* lock = find(renew.name);
  TicketImage* ticket = lock != nullptr ? ticket_of(*lock, renew.id) : nullptr;
  if (ticket == nullptr || ticket->system) return {.outcome = Outcome::kGone};
  if (renew.seq > ticket->seq) {
    const Duration length = ticket->held ? renew.ttl : renew.waiter_ttl;
    if (length.count() <= 0) return {.outcome = Outcome::kInvalid};
    if (later(now_, length) > ticket->lease_end) {
      ticket->lease_end = later(now_, length);
      ticket->lease = length;
      ticket->seq = renew.seq;
    }
  }
  subject_ = renew.id;
  return {};
}

Reply ReferenceModel::leave(std::string_view name, AcquisitionId id, Duration tombstone) {
  if (name.empty() || !id) return {.outcome = Outcome::kInvalid};
  own_ = name;
  LockImage* lock = find(name);
  TicketImage* ticket = lock != nullptr ? ticket_of(*lock, id) : nullptr;
  if (ticket == nullptr) {
    if (tombstone.count() > 0) {
      LockImage& marked = locks_[std::string(name)];
      marked.name = name;
      bury(marked, id, tombstone);
    }
    return {.outcome = Outcome::kGone};
  }
  const bool held = ticket->held;
  take_out(*lock, id, tombstone);
  return {.outcome = held ? Outcome::kReleased : Outcome::kCancelled};
}

Reply ReferenceModel::on(const Downgrade& downgrade) {
  own_ = downgrade.name;
  LockImage* lock = find(downgrade.name);
  TicketImage* ticket = lock != nullptr ? ticket_of(*lock, downgrade.id) : nullptr;
  if (ticket == nullptr || !ticket->held) return {.outcome = Outcome::kNotHeld};
  if (ticket->mode.kind == ModeKind::kPermits) return {.outcome = Outcome::kMismatch};
  if (ticket->upgrade_of) {
    take_out(*lock, downgrade.id, downgrade.tombstone);
  } else {
    ticket->mode = Mode::shared();
  }
  return {.outcome = Outcome::kDone};
}

Reply ReferenceModel::on(const Break& command) {
  own_ = command.name;
  if (LockImage* lock = find(command.name)) {
    for (const TicketImage& ticket : lock->tickets) {
      if (!ticket.held || ticket.token != command.token) continue;
      take_out(*lock, AcquisitionId(ticket.id), command.tombstone);
      return {.outcome = Outcome::kReleased};
    }
  }
  return {.outcome = Outcome::kNotHeld};
}

Reply ReferenceModel::on(const Resize& resize) {
  if (!resize.id || resize.capacity == 0) return {.outcome = Outcome::kInvalid};
  own_ = resize.name;
  LockImage* lock = find(resize.name);
  if (lock == nullptr || lock->tickets.empty()) return {.outcome = Outcome::kNotHeld};
  if (lock->kind != ModeKind::kPermits) return {.outcome = Outcome::kMismatch};
  for (const TombstoneImage& tombstone : lock->tombstones) {
    if (tombstone.id == resize.id) return {.outcome = Outcome::kGone};
  }
  if (TicketImage* same = ticket_of(*lock, resize.id)) {
    if (!same->system) return {.outcome = Outcome::kInvalid};
    if (lock->capacity - same->mode.permits == resize.capacity) {
      admit(*lock);
      if (ticket_of(*lock, resize.id) == nullptr) return {.outcome = Outcome::kDone};
      subject_ = resize.id;
      return {};
    }
  }
  std::erase_if(lock->tickets, [](const TicketImage& t) { return t.system; });
  if (lock->tickets.empty()) return {.outcome = Outcome::kNotHeld};
  if (resize.capacity >= lock->capacity) {
    lock->capacity = resize.capacity;
    for (TicketImage& ticket : lock->tickets) ticket.mode.capacity = resize.capacity;
    return {.outcome = Outcome::kDone};
  }
  admit(*lock);
  TicketImage shrink{.id = resize.id, .order = lock->next_order++, .system = true};
  shrink.mode = Mode::of_permits(lock->capacity - resize.capacity, lock->capacity);
  const bool first = std::all_of(lock->tickets.begin(), lock->tickets.end(),
                                 [](const TicketImage& t) { return t.held; });
  const bool now = first && may_hold(*lock, shrink);
  lock->tickets.push_back(shrink);
  if (now) {
    apply_shrink(*lock, resize.id);
    return {.outcome = Outcome::kDone};
  }
  subject_ = resize.id;
  return {};
}

void ReferenceModel::apply_shrink(LockImage& lock, AcquisitionId id) {
  lock.capacity -= ticket_of(lock, id)->mode.permits;
  std::erase_if(lock.tickets, [&](const TicketImage& ticket) {
    return ticket.id == id || (!ticket.held && ticket.mode.permits > lock.capacity);
  });
  for (TicketImage& ticket : lock.tickets) ticket.mode.capacity = lock.capacity;
}

Reply ReferenceModel::on(const SetValue& set) {
  if (set.value.size() > limits_.max_value) return {.outcome = Outcome::kTooLarge};
  own_ = set.name;
  LockImage* lock = find(set.name);
  const TicketImage* ticket = lock != nullptr ? ticket_of(*lock, set.id) : nullptr;
  if (ticket == nullptr || !ticket->held) return {.outcome = Outcome::kNotHeld};
  lock->value = set.value;
  return {.outcome = Outcome::kDone};
}

Reply ReferenceModel::on(const Keep& keep) {
  if (keep.value && keep.value->size() > limits_.max_value) return {.outcome = Outcome::kTooLarge};
  if (keep.ttl.count() <= 0) return {.outcome = Outcome::kInvalid};
  own_ = keep.name;
  LockImage* lock = find(keep.name);
  TicketImage* ticket = lock != nullptr ? ticket_of(*lock, keep.id) : nullptr;
  if (ticket == nullptr || !ticket->held || keep.seq < ticket->seq) {
    return {.outcome = Outcome::kNotHeld};
  }
  if (keep.seq > ticket->seq) {
    ticket->lease_end = later(now_, keep.ttl);
    ticket->lease = keep.ttl;
    ticket->seq = keep.seq;
    if (keep.value) lock->value = *keep.value;
  }
  return {.outcome = Outcome::kDone};
}

// The ticket and an upgrade that is linked to it.
void ReferenceModel::take_out(LockImage& lock, AcquisitionId id, Duration tombstone) {
  std::vector<AcquisitionId> gone;
  for (const TicketImage& ticket : lock.tickets) {
    if (ticket.id == id || ticket.upgrade_of == id) gone.push_back(ticket.id);
  }
  for (const AcquisitionId each : gone) {
    std::erase_if(lock.tickets, [&](const TicketImage& ticket) { return ticket.id == each; });
    bury(lock, each, tombstone);
  }
}

void ReferenceModel::bury(LockImage& lock, AcquisitionId id, Duration tombstone) {
  if (tombstone.count() <= 0 || limits_.max_tombstones == 0) return;
  const Instant until = later(now_, tombstone);
  for (TombstoneImage& known : lock.tombstones) {
    if (known.id != id) continue;
    known.until = std::max(known.until, until);
    return;
  }
  lock.tombstones.push_back({id, until});
  std::sort(lock.tombstones.begin(), lock.tombstones.end(),
            [](const TombstoneImage& a, const TombstoneImage& b) { return a.id < b.id; });
  cap_tombstones();
}

void ReferenceModel::admit(LockImage& lock) {
  while (budget_ > 0 && admit_one(lock)) --budget_;
}

bool ReferenceModel::admit_one(LockImage& lock) {
  TicketImage* next = nullptr;
  for (TicketImage& ticket : lock.tickets) {
    if (ticket.held || !may_hold(lock, ticket)) continue;
    // Whoever upgrades goes before those who wait for its shared ticket.
    if (next == nullptr || ticket.upgrade_of) next = &ticket;
  }
  if (next == nullptr) return false;
  if (next->system) {
    apply_shrink(lock, AcquisitionId(next->id));
    return true;
  }
  if (!token_left(&lock)) return false;
  grant(lock, *next);
  return true;
}

void ReferenceModel::grant(LockImage& lock, TicketImage& ticket) {
  lock.last_token = {floor_.epoch, std::max(lock.last_token.counter, floor_.counter) + 1};
  ticket.token = lock.last_token;
  ticket.held = true;
}

bool ReferenceModel::token_left(const LockImage* lock) const {
  const std::uint64_t last =
      std::max(lock == nullptr ? 0 : lock->last_token.counter, floor_.counter);
  return last < UINT64_MAX && last + 1 <= limits_.token_ceiling;
}

void ReferenceModel::cap_tombstones() {
  std::vector<std::tuple<Instant, AcquisitionId, std::string>> all;
  for (const auto& [name, lock] : locks_) {
    for (const TombstoneImage& t : lock.tombstones) all.emplace_back(t.until, t.id, name);
  }
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i + limits_.max_tombstones < all.size(); ++i) {
    const AcquisitionId id = std::get<1>(all[i]);
    std::erase_if(locks_[std::get<2>(all[i])].tombstones,
                  [&](const TombstoneImage& t) { return t.id == id; });
  }
}

void ReferenceModel::forget() {
  for (const auto& [name, lock] : locks_) {
    if (!lock.tickets.empty() || !lock.tombstones.empty() || !lock.value.empty()) continue;
    floor_ = std::max(floor_, lock.last_token);
  }
  std::erase_if(locks_, [](const auto& item) {
    const LockImage& lock = item.second;
    return lock.tickets.empty() && lock.tombstones.empty() && lock.value.empty();
  });
}

LockImage* ReferenceModel::find(std::string_view name) {
  const auto found = locks_.find(name);
  return found == locks_.end() ? nullptr : &found->second;
}

Reply ReferenceModel::describe(const LockImage& lock, AcquisitionId id) const {
  const TicketImage& ticket = *ticket_of(const_cast<LockImage&>(lock), id);
  Reply reply;
  reply.outcome = ticket.held ? Outcome::kHeld : Outcome::kWaiting;
  reply.token = ticket.token;
  reply.lease_end = ticket.lease_end;
  reply.seq = ticket.seq;
  reply.lease = ticket.lease;
  if (ticket.held) return reply;
  reply.next_expiry = soonest(lock);
  for (const TicketImage& other : lock.tickets) {
    const bool ahead = !other.held && other.order < ticket.order;
    if (ahead && !ticket.upgrade_of) ++reply.position;
  }
  return reply;
}

}  // namespace holdfast::machine::testing
