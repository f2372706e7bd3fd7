#include "src/recipes/local_locks.h"

#include <algorithm>

#include "src/port/outcome.h"

namespace holdfast::recipes {
namespace {

using base::BootClock;
using port::AcquisitionState;
using port::AcquisitionStatus;
using port::EndStatus;
using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{5};
constexpr milliseconds kAskAgain{200};  // For what the server has not confirmed to be over.
constexpr milliseconds kAfterExpiry{2};

AcquisitionState state_of(AcquisitionStatus status) { return {.status = status}; }

Error closed_error() { return {Errc::kClosed, "the client was closed"}; }

}  // namespace

LocalLocks::LocalLocks(Backend& backend, const port::StoreContext& context)
    : backend_(backend),
      loop_(context.loop),
      listener_(context.listener),
      lease_(backend.guarantees().min_ttl),
      alarms_(*context.io) {}

// --- Requests.

std::optional<Error> LocalLocks::refuse(const port::AcquireRequest& request) const {
  if (auto malformed = port::refuse_malformed(request)) return malformed;
  if (request.mode.kind != machine::ModeKind::kExclusive || request.upgrade_of) {
    return Error(Errc::kUnsupported,
                 "with recipe= there are exclusive locks only: the other programs know no others");
  }
  if (request.ttl < lease_) {
    return Error(Errc::kInvalidArgument,
                 "a ttl of " + std::to_string(request.ttl.count() / 1000) +
                     " ms is shorter than the session's " + std::to_string(lease_.count() / 1000) +
                     " ms: ask for a longer one, or set a shorter session in the store's URL");
  }
  return std::nullopt;
}

void LocalLocks::acquire(port::AcquireRequest request, Ask done) {
  if (auto error = refuse(request)) return done(*std::move(error));
  const auto key = backend_.key_of(request.name);
  if (!key) return done(key.error());
  if (ended_.contains(request.id)) return done(state_of(AcquisitionStatus::kGone));
  Lock& lock = locks_[*key];
  if (lock.phase == Phase::kHeld && lock.ours->request.id == request.id) return done(held(lock));
  EntryPtr entry = find_waiting(lock, request.id);
  if (entry != nullptr && entry == lock.ours) {
    lock.ours->asks.push_back(by(request.deadline, std::move(done)));
    return;
  }
  if (entry == nullptr) {
    if (request.may_wait && request.max_waiters > 0 && lock.queue.size() >= request.max_waiters) {
      return done(
          port::to_acquire_result({.outcome = machine::Outcome::kQueueFull}, request, nullptr, {}));
    }
    entry = std::make_shared<Entry>(Entry{std::move(request)});
    const auto patience = std::max<BootClock::duration>(entry->request.waiter_ttl, lease_);
    entry->alive_until = BootClock::now() + patience;
    lock.queue.push_back(entry);
  } else if (entry->queued) {
    return done(waiting(lock, *entry));
  }
  entry->asks.push_back(by(entry->request.deadline, std::move(done)));
  advance(*key);
}

void LocalLocks::renew(const std::vector<port::RenewItem>& items, BootInstant deadline,
                       Done<States> done) {
  auto states = std::make_shared<States>(items.size(), state_of(AcquisitionStatus::kGone));
  std::vector<Hold> holds;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < items.size(); ++i) {
    Lock* lock = find(items[i].name);
    if (lock == nullptr) continue;
    if (lock->phase == Phase::kHeld && lock->ours->request.id == items[i].id) {
      holds.push_back(hold_of(*backend_.key_of(items[i].name), *lock->ours));
      places.push_back(i);
      continue;
    }
    const EntryPtr entry = find_waiting(*lock, items[i].id);
    if (entry == nullptr) continue;
    entry->seq = std::max(entry->seq, items[i].seq);
    entry->alive_until = BootClock::now() + items[i].waiter_ttl;
    (*states)[i] = waiting(*lock, *entry);
    // Whoever asks alone is told what the server says now.
    const bool asks = entry == lock->ours;
    const bool next = lock->phase == Phase::kFree && lock->queue.front() == entry;
    if (items.size() > 1 || (!asks && !next)) continue;
    (asks ? entry->later : entry->asks)
        .push_back(by<AcquisitionState>(
            deadline, [done](Result<AcquisitionState> state) { done(States{std::move(state)}); }));
    return advance(*backend_.key_of(items[i].name));
  }
  if (holds.empty()) return done(std::move(*states));
  confirm(std::move(holds), std::move(places), items, states, by(deadline, std::move(done)));
}

void LocalLocks::confirm(std::vector<Hold> holds, std::vector<std::size_t> places,
                         const std::vector<port::RenewItem>& items, std::shared_ptr<States> states,
                         Done<States> done) {
  auto names = holds;
  backend_.confirm(std::move(holds),
                   [weak = weak_from_this(), names = std::move(names), places = std::move(places),
                    items, states, done](const Result<std::vector<Result<bool>>>& answers) {
                     const auto self = weak.lock();
                     if (!self || self->closed_) return done(closed_error());
                     if (!answers) return done(answers.error());
                     std::vector<machine::AcquisitionId> gone;
                     for (std::size_t i = 0; i < names.size(); ++i) {
                       const Result<bool>& answer = answers->at(i);
                       Lock* const lock = self->find(names[i].name);
                       const bool ours = lock != nullptr && lock->phase == Phase::kHeld &&
                                         lock->ours->request.id == names[i].id;
                       auto& state = states->at(places[i]);
                       if (!answer) {
                         state = answer.error();
                       } else if (ours && *answer) {
                         lock->ours->seq = std::max(lock->ours->seq, items[places[i]].seq);
                         state = self->held(*lock);
                       } else if (ours) {
                         gone.push_back(names[i].id);
                       }
                     }
                     done(std::move(*states));
                     self->lost(gone);
                   });
}

void LocalLocks::end(const port::AcquisitionRequest& request, Done<EndStatus> done) {
  ended_.add(request.id);
  Lock* const lock = find(request.name);
  if (lock == nullptr) return done(EndStatus::kGone);
  const EntryPtr entry = find_waiting(*lock, request.id);
  if (entry != nullptr && entry != lock->ours) {
    std::erase(lock->queue, entry);
    answer(*entry, state_of(AcquisitionStatus::kGone));
    done(EndStatus::kCancelled);
    return advance(*backend_.key_of(request.name));
  }
  if (!lock->ours || lock->ours->request.id != request.id) return done(EndStatus::kGone);
  // Answered when nothing of it is left at the server.
  lock->ends.push_back(by(request.deadline, std::move(done)));
  lock->ours->withdrawn = true;
  answer(*lock->ours, state_of(AcquisitionStatus::kGone));
  if (lock->phase == Phase::kHeld) give_back(*backend_.key_of(request.name));
}

Result<AcquisitionState> LocalLocks::downgrade(const port::AcquisitionRequest& request) const {
  const auto key = backend_.key_of(request.name);
  const auto found = key ? locks_.find(*key) : locks_.end();
  const bool ours = found != locks_.end() && found->second.phase == Phase::kHeld &&
                    found->second.ours->request.id == request.id;
  if (!ours) return state_of(AcquisitionStatus::kGone);
  return Error(Errc::kUnsupported, "with recipe= there are exclusive locks only");
}

void LocalLocks::inspect(const std::string& name, BootInstant deadline,
                         Done<std::optional<LockInfo>> done) {
  const auto key = backend_.key_of(name);
  if (!key) return done(key.error());
  auto answered = by<std::optional<LockInfo>>(deadline, std::move(done));
  backend_.inspect({name, *key, {}},
                   [weak = weak_from_this(), name, answered](Result<std::optional<LockInfo>> info) {
                     const auto self = weak.lock();
                     Lock* const lock = self ? self->find(name) : nullptr;
                     if (!info || lock == nullptr) return answered(std::move(info));
                     if (*info && lock->phase == Phase::kHeld && (*info)->holders.size() == 1) {
                       HolderInfo& holder = (*info)->holders.front();
                       holder.who = port::to_public(lock->ours->request.owner);
                       holder.token = port::to_public(lock->token);
                     }
                     std::deque<EntryPtr> waiters = lock->queue;
                     if (lock->phase == Phase::kTaking && lock->ours->queued)
                       waiters.push_front(lock->ours);
                     if (!*info && !waiters.empty()) info->emplace().name = name;
                     for (const EntryPtr& entry : waiters) {
                       WaiterInfo waiter;
                       waiter.who = port::to_public(entry->request.owner);
                       (*info)->waiters.push_back(std::move(waiter));
                     }
                     answered(std::move(info));
                   });
}

// --- What the server is asked.

LocalLocks::Lock* LocalLocks::find(const std::string& name) {
  const auto key = backend_.key_of(name);
  if (!key) return nullptr;
  const auto found = locks_.find(*key);
  return found == locks_.end() ? nullptr : &found->second;
}

LocalLocks::EntryPtr LocalLocks::find_waiting(Lock& lock, machine::AcquisitionId id) const {
  for (const EntryPtr& entry : lock.queue) {
    if (entry->request.id == id) return entry;
  }
  const bool asks = lock.phase == Phase::kTaking && lock.ours->request.id == id;
  return asks && !lock.ours->withdrawn ? lock.ours : nullptr;
}

Hold LocalLocks::hold_of(const std::string& key, const Entry& entry) const {
  return {entry.request.name, key, entry.request.id};
}

AcquisitionState LocalLocks::held(const Lock& lock) const {
  AcquisitionState state;
  state.status = AcquisitionStatus::kHeld;
  state.token = lock.token;
  state.seq = lock.ours->seq;
  state.lease = lease_;
  return state;
}

AcquisitionState LocalLocks::waiting(const Lock& lock, const Entry& entry) const {
  AcquisitionState state = state_of(AcquisitionStatus::kWaiting);
  state.seq = entry.seq;
  for (const EntryPtr& each : lock.queue) {
    if (each.get() == &entry) break;
    if (&entry != lock.ours.get()) ++state.ahead;
  }
  return state;
}

// Lets the first waiter ask, when somebody awaits the answer or its pause is over. Waiters that
// died meanwhile leave.
void LocalLocks::advance(const std::string& key) {
  const auto found = locks_.find(key);
  if (closed_ || found == locks_.end()) return;
  Lock& lock = found->second;
  if (lock.phase == Phase::kTaking || lock.phase == Phase::kReturning) return;
  if (lock.phase == Phase::kHeld) return answer_waiting(lock);
  const BootInstant instant = BootClock::now();
  while (!lock.queue.empty() && lock.queue.front()->alive_until <= instant) {
    const EntryPtr dead = lock.queue.front();
    lock.queue.pop_front();
    answer(*dead, state_of(AcquisitionStatus::kGone));
  }
  if (lock.queue.empty()) return forget(key);
  const bool asked = !lock.queue.front()->asks.empty();
  if (asked || lock.next_try <= instant) return take(key, lock);
  answer_waiting(lock);
}

void LocalLocks::take(const std::string& key, Lock& lock) {
  lock.ours = lock.queue.front();
  lock.queue.pop_front();
  lock.phase = Phase::kTaking;
  lock.freed = false;
  backend_.take(hold_of(key, *lock.ours), lock.ours->request.owner,
                [weak = weak_from_this(), key](const Result<Taken>& taken) {
                  if (const auto self = weak.lock()) self->on_taken(key, taken);
                });
}

void LocalLocks::on_taken(const std::string& key, const Result<Taken>& taken) {
  if (closed_) return;
  Lock& lock = locks_.at(key);
  if (!taken) return on_failed(key, lock, taken.error());
  if (!taken->held) return on_busy(key, lock, *taken);
  watch(key, lock, !lock.queue.empty());
  lock.pause = {};
  lock.next_try = {};
  Entry& entry = *lock.ours;
  lock.token = {0, last_token_ = std::max(last_token_ + 1, taken->micros)};
  lock.phase = Phase::kHeld;
  if (entry.withdrawn || entry.alive_until <= BootClock::now()) {
    ended_.add(entry.request.id);
    entry.withdrawn = true;
    answer(entry, state_of(AcquisitionStatus::kGone));
    return give_back(key);
  }
  const bool tell = entry.queued;
  answer(entry, held(lock));
  if (tell) listener_->on_push({port::Push::Kind::kGranted, entry.request.id, held(lock)});
  advance(key);
}

void LocalLocks::on_busy(const std::string& key, Lock& lock, const Taken& taken) {
  lock.phase = Phase::kFree;
  lock.pause =
      lock.freed ? kFirstPause : std::clamp(lock.pause * 2, kFirstPause, backend_.longest_pause());
  auto pause = std::chrono::nanoseconds(jitter_.upper_half(lock.pause));
  if (taken.free_in) {
    pause = std::min<std::chrono::nanoseconds>(pause, *taken.free_in + kAfterExpiry);
  }
  if (lock.freed) pause = {};
  lock.next_try = BootClock::now() + pause;
  const EntryPtr entry = std::exchange(lock.ours, nullptr);
  answer_ends(lock, EndStatus::kCancelled);
  std::vector<Ask> later;
  if (!entry->withdrawn) {
    if (entry->request.may_wait) {
      lock.queue.push_front(entry);
      later = std::exchange(entry->later, {});
    } else {
      AcquisitionState busy = state_of(AcquisitionStatus::kBusy);
      busy.next_expiry = taken.free_in;
      answer(*entry, busy);
    }
  }
  alarms_.at(lock.next_try, [this, key] { advance(key); });
  answer_waiting(lock);
  if (lock.queue.empty()) return forget(key);
  watch(key, lock, true);
  if (later.empty()) return;
  entry->asks = std::move(later);
  advance(key);
}

void LocalLocks::watch(const std::string& key, Lock& lock, bool waits) {
  if (std::exchange(lock.watched, waits) != waits) backend_.watch(key, waits);
}

void LocalLocks::forget(const std::string& key) {
  watch(key, locks_.at(key), false);
  locks_.erase(key);
}

void LocalLocks::freed(const std::string& key) {
  const auto found = locks_.find(key);
  if (found == locks_.end()) return;
  Lock& lock = found->second;
  lock.freed = lock.phase == Phase::kTaking;
  if (lock.phase != Phase::kFree) return;
  lock.pause = {};
  lock.next_try = {};
  advance(key);
}

// Whoever has queued keeps its place; the others have been told nothing yet.
void LocalLocks::on_failed(const std::string& key, Lock& lock, const Error& why) {
  const EntryPtr entry = lock.ours;
  const bool stays = entry->queued && !entry->withdrawn;
  entry->withdrawn = !stays;
  if (!stays && why.code() == Errc::kOutcomeUnknown) ended_.add(entry->request.id);
  answer(*entry, why);
  lock.next_try = BootClock::now() + jitter_.upper_half(kAskAgain);
  alarms_.at(lock.next_try, [this, key] { advance(key); });
  if (stays) lock.queue.push_front(entry);
  if (why.code() == Errc::kOutcomeUnknown) {
    // The server may have granted it: an entry that nobody asks about gives that back.
    lock.ours = std::make_shared<Entry>(Entry{entry->request});
    lock.ours->withdrawn = true;
    return give_back(key);
  }
  lock.phase = Phase::kFree;
  lock.ours = nullptr;
  answer_ends(lock, EndStatus::kCancelled);
  std::erase_if(lock.queue, [&](const EntryPtr& each) {
    if (each->queued) return answer(*each, why), false;
    answer(*each, why);
    return true;
  });
  advance(key);
}

// The rest of the queue is told that it waits.
void LocalLocks::answer_waiting(Lock& lock) {
  const std::deque<EntryPtr> queue = lock.queue;
  for (const EntryPtr& entry : queue) {
    if (entry->request.may_wait) {
      answer(*entry, waiting(lock, *entry));
      entry->queued = true;
    } else {
      std::erase(lock.queue, entry);
      answer(*entry, state_of(AcquisitionStatus::kBusy));
    }
  }
}

void LocalLocks::answer(Entry& entry, const Result<AcquisitionState>& result) {
  for (const Ask& ask : std::exchange(entry.asks, {})) ask(result);
  for (const Ask& ask : std::exchange(entry.later, {})) ask(result);
}

void LocalLocks::answer_ends(Lock& lock, const Result<EndStatus>& result) {
  for (const Done<EndStatus>& done : std::exchange(lock.ends, {})) done(result);
}

void LocalLocks::give_back(const std::string& key) {
  if (closed_) return;
  Lock& lock = locks_.at(key);
  lock.phase = Phase::kReturning;
  backend_.give_back(hold_of(key, *lock.ours),
                     [weak = weak_from_this(), key](const Result<bool>& given) {
                       if (const auto self = weak.lock()) self->on_given_back(key, given);
                     });
}

void LocalLocks::on_given_back(const std::string& key, const Result<bool>& given) {
  if (closed_) return;
  Lock& lock = locks_.at(key);
  if (given) {
    answer_ends(lock, *given ? EndStatus::kReleased : EndStatus::kGone);
  } else {
    answer_ends(lock, given.error());
  }
  if (!given) {  // Until the server says so, it is not over.
    alarms_.at(BootClock::now() + kAskAgain, [this, key] { give_back(key); });
    return;
  }
  lock.phase = Phase::kFree;
  lock.ours = nullptr;
  advance(key);
}

void LocalLocks::lost(const std::vector<machine::AcquisitionId>& ids) {
  for (auto at = locks_.begin(); at != locks_.end();) {
    Lock& lock = at->second;
    const std::string key = (at++)->first;  // advance() may erase it.
    if (lock.phase != Phase::kHeld) continue;
    if (std::find(ids.begin(), ids.end(), lock.ours->request.id) == ids.end()) continue;
    const machine::AcquisitionId id = lock.ours->request.id;
    ended_.add(id);
    lock.phase = Phase::kFree;
    lock.ours = nullptr;
    listener_->on_push({port::Push::Kind::kHint, id, {}});
    advance(key);
  }
}

// --- Time, and the end.

bool LocalLocks::returning() const {
  return std::any_of(locks_.begin(), locks_.end(),
                     [](const auto& each) { return each.second.phase == Phase::kReturning; });
}

// Whoever has not been answered has an alarm.
void LocalLocks::close() {
  closed_ = true;
  locks_.clear();
  for (const port::Task& task : alarms_.stop()) task();
}

}  // namespace holdfast::recipes
