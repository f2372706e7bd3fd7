// The answers to a session, and the memory of the arbiter's answers.
#include <algorithm>
#include <utility>

#include "src/stores/hybrid/gate.h"

namespace holdfast::stores::hybrid {

using base::BootClock;
using port::AcquisitionStatus;

bool Gate::is_local(port::AcquisitionId id) const {
  const base::LocalLock lock(mutex_);
  return local_.contains(id);
}

void Gate::set_local(port::AcquisitionId id, bool local) {
  const base::LocalLock lock(mutex_);
  if (local) {
    local_.insert(id);
  } else {
    local_.erase(id);
  }
}

void Gate::beat(const port::RenewItem& item, base::BootInstant deadline, port::Done<State> done) {
  const EntryPtr entry = find(item.name, item.id);
  if (!entry || entry->phase == Phase::kEnding) {
    return done(State{.status = AcquisitionStatus::kGone});
  }
  // Its lease as a waiter has ended, and only this client knew of it.
  // A ticket at the arbiter ends there.
  if (is_dead(*entry) && entry->phase != Phase::kThere) {
    drop(entry);
    return done(State{.status = AcquisitionStatus::kGone});
  }
  entry->alive_until = std::max(entry->alive_until, settings_.now() + item.waiter_ttl);
  entry->seq = std::max(entry->seq, item.seq);
  if (entry->trouble) return done(*std::exchange(entry->trouble, std::nullopt));
  // A wait in this client costs no request. Only a place at the arbiter is renewed there.
  switch (entry->phase) {
    case Phase::kLocal:
    case Phase::kPaused: return done(waiting(entry));
    case Phase::kThere: entry->asks.push_back(std::move(done)); return ask_arbiter(entry);
    case Phase::kEnding: return;
    case Phase::kFilter:
    case Phase::kAsking: break;
  }
  const bool first = entry->asks.empty();
  entry->asks.push_back(std::move(done));
  if (first) {
    alarms_.at(deadline, [this, entry] {
      if (entry->told && !entry->asks.empty()) answer(entry, waiting(entry));
    });
  }
  if (entry->phase == Phase::kFilter) filter_->ask(entry->ticket);
}

void Gate::answer(const EntryPtr& entry, const Result<State>& result) {
  for (const Ask& done : std::exchange(entry->asks, {})) done(result);
}

Gate::State Gate::waiting(const EntryPtr& entry) const {
  State state{.status = AcquisitionStatus::kWaiting};
  state.seq = entry->seq;
  state.lease = entry->request.waiter_ttl;
  const auto found = locks_.find(entry->request.name);
  if (found == locks_.end()) return state;
  const auto& queue = found->second.queue;
  const auto place = std::find(queue.begin(), queue.end(), entry);
  if (place == queue.end()) return state;
  state.ahead = static_cast<std::uint32_t>(place - queue.begin()) + (found->second.next ? 1 : 0);
  return state;
}

Gate::State Gate::translated(const Entry& entry, State state) const {
  if (state.seq == 0) state.seq = entry.base_seq;
  return state;
}

void Gate::note(const std::string& name, const State& state) {
  if (state.status == AcquisitionStatus::kGone) return;
  port::Duration fresh = jitter_.around(settings_.recheck);
  if (state.next_expiry) fresh = std::min(fresh, *state.next_expiry);
  if (state.status == AcquisitionStatus::kHeld) fresh = std::min(fresh, state.lease);
  lock_of(name).busy_until = BootClock::now() + fresh;
}

void Gate::forget(const std::string& name) {
  if (const auto found = locks_.find(name); found != locks_.end()) found->second.busy_until = {};
}

std::uint64_t Gate::issue_of(const std::string& name, port::AcquisitionId id) const {
  const EntryPtr entry = find(name, id);
  return entry ? entry->issue : 0;
}

void Gate::close() {
  closed_ = true;
  alarms_.stop();
  const auto entries = std::exchange(entries_, {});
  for (const auto& [id, entry] : entries) {
    answer(entry, Error(Errc::kClosed, "the client was closed"));
  }
  locks_.clear();
}

}  // namespace holdfast::stores::hybrid
