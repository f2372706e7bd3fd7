#include "src/session/reports/watch_sampler.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "src/session/core.h"

namespace holdfast::session {
namespace {

constexpr auto kSamplePeriod = std::chrono::milliseconds(200);
// A watch of thousands of locks must not keep its store busy. So a look that takes long is followed
// by a rest of so many times its length.
constexpr int kRest = 4;
constexpr auto kLongestRest = std::chrono::seconds(2);  // A store that was away was not busy.

using HolderKey = std::pair<std::string, Token>;
using WaiterKey = std::pair<std::string, std::string>;

WaiterKey waiter_key(const LockInfo& lock, const WaiterInfo& waiter) {
  return {lock.name,
          waiter.who.owner + '\n' + std::to_string(waiter.who.since.time_since_epoch().count())};
}

// `now`: the lock as it is known; nullptr: unknown. `longest`: it was held at most this long ago.
LockEventKind how_it_ended(const HolderInfo& holder, const LockInfo* now,
                           std::chrono::milliseconds longest, bool keeps_last_token) {
  const bool broken = now != nullptr && now->last_break && now->last_break->token == holder.token;
  if (broken) return LockEventKind::kBroken;
  if (holder.time_left <= longest) return LockEventKind::kExpired;
  // A release leaves the token behind.
  const bool forgotten = keeps_last_token && (now == nullptr || now->last_token < holder.token);
  return forgotten ? LockEventKind::kForgotten : LockEventKind::kReleased;
}

}  // namespace

std::vector<LockEvent> differences(const std::vector<LockInfo>& before,
                                   const std::vector<LockInfo>& after,
                                   std::chrono::milliseconds longest, bool keeps_last_token) {
  std::set<HolderKey> holders_after;
  std::set<WaiterKey> waiters_before;
  std::set<HolderKey> holders_before;
  std::map<std::string, const LockInfo*> locks_after;
  for (const LockInfo& lock : after) {
    locks_after[lock.name] = &lock;
    for (const HolderInfo& holder : lock.holders) holders_after.emplace(lock.name, holder.token);
  }
  std::vector<LockEvent> events;
  // Ends come first, then grants, then waits: in the order in which they can have happened.
  for (const LockInfo& lock : before) {
    for (const WaiterInfo& waiter : lock.waiters) waiters_before.insert(waiter_key(lock, waiter));
    for (const HolderInfo& holder : lock.holders) {
      holders_before.emplace(lock.name, holder.token);
      if (holders_after.contains({lock.name, holder.token})) continue;
      const auto now = locks_after.find(lock.name);
      const LockInfo* present = now == locks_after.end() ? nullptr : now->second;
      events.push_back({how_it_ended(holder, present, longest, keeps_last_token),
                        lock.name,
                        holder.who,
                        holder.token,
                        {}});
    }
  }
  for (const LockInfo& lock : after) {
    for (const HolderInfo& holder : lock.holders) {
      if (holders_before.contains({lock.name, holder.token})) continue;
      events.push_back(
          {LockEventKind::kGranted, lock.name, holder.who, holder.token, holder.time_left});
    }
  }
  for (const LockInfo& lock : after) {
    for (const WaiterInfo& waiter : lock.waiters) {
      if (waiters_before.contains(waiter_key(lock, waiter))) continue;
      events.push_back({LockEventKind::kQueued, lock.name, waiter.who, {}, {}});
    }
  }
  return events;
}

std::vector<std::string> without_trace(const std::vector<LockInfo>& before,
                                       const std::vector<LockInfo>& after) {
  std::set<std::string> listed;
  for (const LockInfo& lock : after) listed.insert(lock.name);
  std::vector<std::string> names;
  for (const LockInfo& lock : before) {
    if (!lock.holders.empty() && !listed.contains(lock.name)) names.push_back(lock.name);
  }
  return names;
}

std::shared_ptr<WatchSampler> WatchSampler::start(Core& core, std::string prefix, Sink sink,
                                                  std::vector<LockInfo> present) {
  std::shared_ptr<WatchSampler> sampler(
      new WatchSampler(core, std::move(prefix), std::move(sink), std::move(present)));
  const base::LocalLock lock(core.mutex_);
  core.samplers_.push_back(sampler);
  core.arm(sampler->on_tick(base::BootClock::now()));
  return sampler;
}

BootInstant WatchSampler::on_tick(BootInstant now) {
  if (now < next_) return next_;
  next_ = now + kSamplePeriod;
  if (asking_) return next_;
  asking_ = true;
  core_.store_->list(prefix_, kMostLocks, core_.request_deadline(),
                     [weak = weak_from_this(), now](const Result<std::vector<LockInfo>>& found) {
                       const auto self = weak.lock();
                       if (!self) return;
                       // A list that was cut short says nothing of what is missing.
                       if (!found || found->size() >= kMostLocks) {
                         self->asking_ = false;
                         if (!found) self->tell_failure(found.error());
                         return;
                       }
                       self->tell_recovery();
                       const auto sample = std::make_shared<Sample>();
                       sample->asked_at = now;
                       sample->listed = *found;
                       sample->vanished = without_trace(self->seen_, *found);
                       self->go_on(sample);
                     });
  return next_;
}

// Tells it once, until the store can be asked again.
void WatchSampler::tell_failure(const Error& why) {
  if (why.code() == Errc::kClosed || std::exchange(failing_, true)) return;
  core_.on_watches_blind(why);
}

void WatchSampler::tell_recovery() {
  if (!std::exchange(failing_, false)) return;
  core_.reports_.log(
      core_.reports_.event(LogSeverity::kInfo, "watch_sees",
                           "a watch" + core_.at_store() +
                               " sees again; of what came and went meanwhile it tells nothing"));
}

void WatchSampler::go_on(const std::shared_ptr<Sample>& sample) {
  // A list names no free locks. Only the trace of a lock that left the list says how it ended.
  if (sample->asked == sample->vanished.size()) return tell(*sample);
  core_.store_->inspect(
      sample->vanished[sample->asked], core_.request_deadline(),
      [weak = weak_from_this(), sample](const Result<std::optional<LockInfo>>& found) {
        const auto self = weak.lock();
        if (!self) return;
        const Errc code = found ? Errc::kClosed : found.error().code();
        const bool unreadable = code == Errc::kCorruptState || code == Errc::kVersionMismatch;
        if (!found && !unreadable) {
          self->asking_ = false;  // Nothing is told yet: the next sample finds it again.
          return;
        }
        // The unreadable lock is not reported until it can be read again; the others are.
        if (unreadable) self->keep(*sample, sample->vanished[sample->asked]);
        if (found && *found) sample->traces.push_back(**found);
        ++sample->asked;
        self->go_on(sample);
      });
}

// Keeps the lock as it was seen last.
void WatchSampler::keep(Sample& sample, const std::string& name) const {
  for (const LockInfo& lock : seen_) {
    if (lock.name == name) sample.listed.push_back(lock);
  }
}

void WatchSampler::tell(Sample& sample) {
  asking_ = false;
  const BootInstant told_at = base::BootClock::now();
  next_ =
      std::max(next_, told_at + std::min<Nanos>((told_at - sample.asked_at) * kRest, kLongestRest));
  std::vector<LockInfo> now = sample.listed;
  for (LockInfo& trace : sample.traces) {
    // The next sample has its present holder in its list, and reports it.
    trace.holders.clear();
    trace.waiters.clear();
    now.push_back(std::move(trace));
  }
  const auto longest =
      std::chrono::ceil<std::chrono::milliseconds>(base::BootClock::now() - seen_at_);
  // Where acquisitions come and go with their clients, nothing is left of a lock that is free.
  const bool keeps_last_token = !core_.store_->guarantees().bound_to_client;
  for (const LockEvent& event : differences(seen_, now, longest, keeps_last_token)) sink_(event);
  seen_ = std::move(sample.listed);
  seen_at_ = sample.asked_at;
}

}  // namespace holdfast::session
