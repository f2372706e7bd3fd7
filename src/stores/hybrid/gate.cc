#include "src/stores/hybrid/gate.h"

#include <algorithm>
#include <utility>

#include "holdfast/detail/transient.h"
#include "src/port/outcome.h"

namespace holdfast::stores::hybrid {
namespace {

using base::BootClock;
using port::AcquisitionState;
using port::AcquisitionStatus;
using port::EndStatus;
using std::chrono::milliseconds;

constexpr milliseconds kRetry{200};
constexpr milliseconds kRequest{5000};
constexpr milliseconds kForgetEnding{120'000};
constexpr milliseconds kCalm{10'000};
constexpr std::size_t kIdleLocks = 4096;

AcquisitionState state_of(AcquisitionStatus status) { return {.status = status}; }

}  // namespace

Gate::Gate(const port::StoreContext& context, Settings settings)
    : loop_(context.loop),
      listener_(context.listener),
      settings_(std::move(settings)),
      alarms_(*context.io) {}

void Gate::connect(port::Store& arbiter, Filter& filter) {
  arbiter_ = &arbiter;
  filter_ = &filter;
  const Guarantees given = arbiter.guarantees();
  least_ttl_ = given.bound_to_client ? port::Duration::max() : port::Duration(given.min_ttl);
}

// --- Asking.

std::optional<Error> Gate::refuse(const port::AcquireRequest& request) const {
  if (auto malformed = port::refuse_malformed(request)) return malformed;
  if (request.mode.kind != machine::ModeKind::kExclusive || request.upgrade_of) {
    return Error(Errc::kUnsupported,
                 "a hybrid store has exclusive locks only: ask the arbiter's own store for others");
  }
  return std::nullopt;
}

Gate::EntryPtr Gate::find(const std::string& name, port::AcquisitionId id) const {
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second->request.name != name) return nullptr;
  return found->second;
}

Gate::Lock& Gate::lock_of(const std::string& name) {
  if (locks_.size() > kIdleLocks) {
    std::erase_if(locks_, [](const auto& each) {
      const Lock& lock = each.second;
      return !lock.next && lock.queue.empty() && !lock.trying && lock.tries.empty();
    });
  }
  return locks_[name];
}

void Gate::acquire(port::AcquireRequest request, Ask done) {
  if (auto error = refuse(request)) return done(*std::move(error));
  if (ended_.contains(request.id)) return done(state_of(AcquisitionStatus::kGone));
  if (const auto known = entries_.find(request.id); known != entries_.end()) {
    if (known->second->request.name != request.name) {
      return done(state_of(AcquisitionStatus::kGone));
    }
    return ask_again(known->second, std::move(request), std::move(done));
  }
  Lock& lock = lock_of(request.name);
  const std::size_t waiters = lock.queue.size() + (lock.next ? 1 : 0);
  if (request.may_wait && request.max_waiters > 0 && waiters >= request.max_waiters) {
    return done(
        port::to_acquire_result({.outcome = machine::Outcome::kQueueFull}, request, nullptr, {}));
  }
  const auto entry = std::make_shared<Entry>();
  entry->request = std::move(request);
  entry->asks.push_back(std::move(done));
  entry->alive_until = settings_.now() + entry->request.waiter_ttl;
  entries_[entry->request.id] = entry;
  set_local(entry->request.id, true);
  if (entry->request.may_wait) {
    begin_wait(entry);
  } else {
    enter_filter(entry);
  }
}

void Gate::ask_again(const EntryPtr& entry, port::AcquireRequest request, Ask done) {
  switch (entry->phase) {
    case Phase::kLocal: return done(waiting(entry));
    case Phase::kFilter: filter_->ask(entry->ticket); [[fallthrough]];
    case Phase::kAsking: return entry->asks.push_back(std::move(done));
    case Phase::kPaused:
    case Phase::kThere:
      entry->request.deadline = request.deadline;
      entry->asks.push_back(std::move(done));
      return ask_arbiter(entry);
    case Phase::kEnding: return done(state_of(AcquisitionStatus::kGone));
  }
}

void Gate::begin_wait(const EntryPtr& entry) {
  Lock& lock = lock_of(entry->request.name);
  if (lock.next || !lock.queue.empty()) {
    entry->told = true;
    lock.queue.push_back(entry);
    return answer(entry, waiting(entry));
  }
  lock.next = entry;
  enter_filter(entry);
}

void Gate::enter_filter(const EntryPtr& entry) {
  entry->phase = Phase::kFilter;
  entry->ticket = filter_->enter(entry->request.name, entry->request.may_wait, entry->request.owner,
                                 [weak = weak_from_this(), entry](Filter::News news) {
                                   const auto self = weak.lock();
                                   if (self && !self->closed_) self->on_filter(entry, news);
                                 });
  if (!entry->ticket) return on_filter(entry, Filter::News::kNone);
  // Whoever is probably alone asks both at once. It keeps its place at the filter all the same.
  Lock& lock = lock_of(entry->request.name);
  if (std::exchange(lock.calm_until, {}) <= BootClock::now() || lock.trying) return;
  entry->request.may_wait ? ask_arbiter(entry) : try_arbiter(entry);
}

// The filter's "busy" is never final.
void Gate::limit_wait(const EntryPtr& entry) {
  alarms_.at(BootClock::now() + jitter_.around(settings_.patience), [this, entry] {
    if (entry->phase != Phase::kFilter) return;
    filter_->leave(std::exchange(entry->ticket, nullptr));
    ask_arbiter(entry);
  });
}

void Gate::on_filter(const EntryPtr& entry, Filter::News news) {
  entry->met = entry->met || news == Filter::News::kWaiting || news == Filter::News::kBusy;
  if (entry->phase != Phase::kFilter) return;
  if (news == Filter::News::kWaiting) {
    if (!std::exchange(entry->limited, true)) limit_wait(entry);
    entry->told = true;
    return answer(entry, waiting(entry));
  }
  if (news != Filter::News::kPassed) entry->ticket = nullptr;
  if (entry->request.may_wait) return ask_arbiter(entry);
  const bool known =
      news == Filter::News::kBusy && BootClock::now() < lock_of(entry->request.name).busy_until;
  if (!known) return try_arbiter(entry);
  answer(entry, state_of(AcquisitionStatus::kBusy));
  drop(entry);
}

// --- Tries: one of this client at the arbiter; the others hear what it is told.

void Gate::try_arbiter(const EntryPtr& entry) {
  Lock& lock = lock_of(entry->request.name);
  if (lock.trying) {
    lock.tries.push_back(entry);
    return;
  }
  lock.trying = entry;
  ask_arbiter(entry);
}

void Gate::end_try(Lock& lock, const EntryPtr& entry, const Result<State>& told) {
  if (lock.trying != entry) return;
  lock.trying = nullptr;
  Result<State> others = state_of(AcquisitionStatus::kBusy);
  // Theirs were not sent.
  if (!told) others = Error(Errc::kUnavailable, told.error().message());
  for (const EntryPtr& each : std::exchange(lock.tries, {})) {
    answer(each, others);
    drop(each);
  }
}

// --- The arbiter.

void Gate::ask_arbiter(const EntryPtr& entry) {
  if (entry->told && entry->phase != Phase::kThere && is_dead(*entry)) return drop(entry);
  const bool there = entry->phase == Phase::kThere;
  if (!there) entry->phase = Phase::kAsking;
  if (entry->issue == 0) {
    entry->issue = ++last_issue_;
    entry->base_seq = entry->seq;
  }
  port::AcquireRequest request = entry->request;
  request.issue = entry->issue;
  const BootInstant now = BootClock::now();
  if (entry->told) {
    request.deadline = std::max(request.deadline, now + kRequest);
    // As every waiter it holds for what is left of its own lease, until its first renewal.
    const port::Duration left = std::max(entry->alive_until - settings_.now(), least_ttl_);
    request.ttl = std::min(request.ttl, left);
  }
  arbiter_->acquire(std::move(request),
                    [weak = weak_from_this(), entry](const Result<State>& told) {
                      const auto self = weak.lock();
                      if (self && !self->closed_) self->on_arbiter(entry, told);
                    });
}

void Gate::on_arbiter(const EntryPtr& entry, const Result<State>& told) {
  if (entry->phase == Phase::kEnding || find(entry->request.name, entry->request.id) != entry) {
    return;
  }
  if (!told) return on_arbiter_failed(entry, told.error());
  entry->maybe_there = false;
  entry->trouble.reset();
  note(entry->request.name, *told);
  const State state = translated(*entry, *told);
  switch (told->status) {
    case AcquisitionStatus::kHeld:
      became_held(entry);
      if (!entry->asks.empty()) return answer(entry, state);
      return listener_->on_push({port::Push::Kind::kGranted, entry->request.id, state});
    case AcquisitionStatus::kWaiting:
      entry->phase = Phase::kThere;
      entry->told = entry->met = true;
      set_local(entry->request.id, false);
      return answer(entry, state);
    case AcquisitionStatus::kBusy:
      end_try(lock_of(entry->request.name), entry, told);
      answer(entry, state);
      return drop(entry);
    case AcquisitionStatus::kGone:
      end_try(lock_of(entry->request.name), entry, told);
      if (entry->asks.empty()) {
        listener_->on_push({port::Push::Kind::kHint, entry->request.id, {}});
      }
      answer(entry, state);
      return drop(entry);
  }
}

void Gate::on_arbiter_failed(const EntryPtr& entry, const Error& why) {
  entry->maybe_there = entry->maybe_there || why.code() == Errc::kOutcomeUnknown;
  end_try(lock_of(entry->request.name), entry, why);
  answer(entry, why);
  if (entry->phase == Phase::kThere) return;
  const bool passing = detail::is_transient(why.code());
  if (!entry->told && !entry->maybe_there) return drop(entry);
  entry->phase = Phase::kPaused;
  if (!entry->told) return;  // The session asks again, or gives up.
  entry->trouble = why;
  if (!passing) return;
  alarms_.at(BootClock::now() + jitter_.around(kRetry), [this, entry] {
    if (entry->phase == Phase::kPaused) ask_arbiter(entry);
  });
}

void Gate::became_held(const EntryPtr& entry) {
  Lock& lock = lock_of(entry->request.name);
  entry->phase = Phase::kThere;
  entry->held = true;
  set_local(entry->request.id, false);
  end_try(lock, entry, state_of(AcquisitionStatus::kHeld));
  leave_queue(entry);
}

// Whoever is next of this client goes to the filter.
void Gate::next_one(const std::string& name) {
  while (true) {
    Lock& lock = lock_of(name);
    if (closed_ || lock.next || lock.queue.empty()) return;
    const EntryPtr entry = lock.queue.front();
    lock.queue.erase(lock.queue.begin());
    if (is_dead(*entry)) {
      drop(entry);
      continue;
    }
    lock.next = entry;
    enter_filter(entry);
  }
}

void Gate::leave_queue(const EntryPtr& entry) {
  Lock& lock = lock_of(entry->request.name);
  std::erase(lock.queue, entry);
  std::erase(lock.tries, entry);
  if (lock.next != entry) return;
  lock.next = nullptr;
  next_one(entry->request.name);
}

void Gate::on_push(const port::Push& push) {
  if (closed_) return;
  const auto found = entries_.find(push.id);
  if (found == entries_.end()) return listener_->on_push(push);
  const EntryPtr entry = found->second;
  if (entry->phase == Phase::kEnding) return;
  if (push.kind == port::Push::Kind::kGranted) {
    note(entry->request.name, push.state);
    became_held(entry);
    return listener_->on_push({push.kind, push.id, translated(*entry, push.state)});
  }
  if (entry->held && push.kind == port::Push::Kind::kHint) {
    // It may be broken: let the next contender pass.
    forget(entry->request.name);
    filter_->leave(std::exchange(entry->ticket, nullptr));
  }
  listener_->on_push(push);
}

Result<Gate::State> Gate::renewed(const port::RenewItem& item, const Result<State>& told) {
  const EntryPtr entry = find(item.name, item.id);
  if (!entry || entry->phase == Phase::kEnding || closed_) return told;
  if (!told) {
    if (!detail::is_transient(told.error().code())) drop(entry);
    return told;
  }
  const State state = translated(*entry, *told);
  if (told->status == AcquisitionStatus::kGone) {
    drop(entry);
  } else {
    note(item.name, *told);
    if (told->status == AcquisitionStatus::kHeld && !entry->held) became_held(entry);
  }
  return state;
}

// --- The end of an acquisition.

void Gate::end(const port::AcquisitionRequest& request, bool release, port::Done<EndStatus> done) {
  const EntryPtr entry = find(request.name, request.id);
  port::AcquisitionRequest asked = request;
  if (!entry) {
    if (ended_.contains(request.id)) return done(EndStatus::kGone);
    if (request.issue != 0 && !entries_.contains(request.id)) ended_.add(request.id);
    asked.issue = 0;
    return release ? arbiter_->release(asked, std::move(done))
                   : arbiter_->cancel(asked, std::move(done));
  }
  // The arbiter is asked to end whatever it may have heard of, answered or not.
  const bool there = entry->phase == Phase::kAsking || entry->phase == Phase::kThere ||
                     entry->phase == Phase::kEnding || entry->maybe_there;
  const bool first = entry->phase != Phase::kEnding;
  entry->phase = Phase::kEnding;
  if (first) {
    if (entry->held) {
      forget(request.name);
      Lock& lock = lock_of(request.name);
      // Nobody else was met: for a while the next acquire asks filter and arbiter at once.
      const bool alone = !entry->met && !request.others_wait && !lock.next && !lock.trying;
      if (alone) lock.calm_until = BootClock::now() + kCalm;
    }
    end_try(lock_of(request.name), entry, Error(Errc::kUnavailable, "the try was cancelled"));
    answer(entry, state_of(AcquisitionStatus::kGone));
    leave_queue(entry);
  }
  if (!there) {
    drop(entry);
    return done(EndStatus::kCancelled);
  }
  asked.issue = entry->issue;
  const auto on_told = [weak = weak_from_this(), entry,
                        done = std::move(done)](const Result<EndStatus>& ended) {
    if (const auto self = weak.lock(); self && !self->closed_) self->on_ended(entry, ended);
    done(ended);
  };
  if (release) {
    arbiter_->release(asked, on_told);
  } else {
    arbiter_->cancel(asked, on_told);
  }
}

// The filter lets the next one pass only now: it finds the lock free at the arbiter.
void Gate::on_ended(const EntryPtr& entry, const Result<EndStatus>& ended) {
  filter_->leave(std::exchange(entry->ticket, nullptr));
  if (ended) return drop(entry);
  alarms_.at(BootClock::now() + kForgetEnding, [this, entry] { drop(entry); });
}

void Gate::drop(const EntryPtr& entry) {
  const auto found = entries_.find(entry->request.id);
  if (found == entries_.end() || found->second != entry) return;
  entries_.erase(found);
  ended_.add(entry->request.id);
  set_local(entry->request.id, false);
  if (entry->held) forget(entry->request.name);
  entry->phase = Phase::kEnding;
  answer(entry, state_of(AcquisitionStatus::kGone));
  filter_->leave(std::exchange(entry->ticket, nullptr));
  leave_queue(entry);
}

void Gate::kept(const std::string& name, port::AcquisitionId id) {
  const EntryPtr entry = find(name, id);
  if (!entry) return;
  filter_->leave(std::exchange(entry->ticket, nullptr));
  entries_.erase(id);
  set_local(id, false);
}

}  // namespace holdfast::stores::hybrid
