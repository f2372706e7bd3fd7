#include "src/session/deadlock/deadlock_watch.h"

#include <algorithm>
#include <utility>

#include "src/session/acquiring.h"
#include "src/session/core_call.h"
#include "src/session/deadlock/deadlock.h"

namespace holdfast::session {
namespace {

constexpr Nanos kPeriod = std::chrono::seconds(1);
constexpr int kShare = 20;

bool still_waits(const Acquisition& acquisition) {
  return acquisition.acquire && acquisition.wait->options->owner;
}

}  // namespace

BootInstant DeadlockWatch::begin(const std::shared_ptr<Acquisition>& acquisition, BootInstant now) {
  waits_.push_back({acquisition, now, {}});
  next_ = std::min(next_, now + kPeriod);
  return next_;
}

BootInstant DeadlockWatch::on_tick(BootInstant now) {
  if (now < next_) return next_;
  std::erase_if(waits_, [](const Wait& wait) {
    const auto acquisition = wait.acquisition.lock();
    return !acquisition || !still_waits(*acquisition);
  });
  next_ = waits_.empty() ? BootInstant::max() : now + kPeriod;
  const bool due = std::any_of(waits_.begin(), waits_.end(),
                               [&](const Wait& wait) { return now - wait.since >= kPeriod; });
  if (!due || asking_) return next_;
  asking_ = true;
  core_.store_->list(core_.stored({}), kMostLocks, core_.request_deadline(),
                     [weak = weak_from_this(), now](Result<std::vector<LockInfo>> found) {
                       if (const auto self = weak.lock()) self->on_list(now, std::move(found));
                     });
  return next_;
}

std::vector<DeadlockWatch::Question> DeadlockWatch::questions() {
  std::vector<Question> all;
  for (const Wait& wait : waits_) {
    const auto acquisition = wait.acquisition.lock();
    if (!acquisition || !still_waits(*acquisition) || !acquisition->acquire->queued()) continue;
    all.push_back({acquisition, acquisition->wait->options->owner->id()});
  }
  return all;
}

void DeadlockWatch::on_list(BootInstant asked_at, Result<std::vector<LockInfo>> found) {
  const bool whole = found && found->size() < kMostLocks;
  std::vector<Question> to_answer;
  {
    const base::LocalLock lock(core_.mutex_);
    asking_ = false;
    const BootInstant now = base::BootClock::now();
    next_ = std::max(next_, now + kShare * (now - asked_at));
    // A reading that failed or was cut short breaks the chain of two equal ones.
    if (!whole) {
      for (Wait& wait : waits_) wait.edges.clear();
      return;
    }
    to_answer = questions();
  }
  for (LockInfo& lock : *found) lock.name = core_.shown(lock.name);
  const std::set<std::string> stuck = stuck_owners(*found);
  for (const Question& question : to_answer) {
    std::optional<Deadlock> deadlock;
    if (stuck.contains(question.owner)) {
      deadlock = find_deadlock(*found, question.owner, question.acquisition->name);
    }
    answer(question, deadlock ? std::move(deadlock->edges) : std::vector<std::string>(),
           deadlock ? deadlock->cycle : std::string());
  }
}

void DeadlockWatch::answer(const Question& question, std::vector<std::string> edges,
                           const std::string& cycle) {
  const Acquiring::Turn turn(core_, /*on_loop=*/true);
  const auto wait = std::find_if(waits_.begin(), waits_.end(), [&](const Wait& one) {
    return one.acquisition.lock() == question.acquisition;
  });
  if (wait == waits_.end() || !question.acquisition->acquire) return;
  // One reading is no snapshot. Two equal ones prove that each wait and grant lasted from the first
  // to the second.
  const bool again = !edges.empty() && edges == wait->edges;
  wait->edges = std::move(edges);
  if (!again) return;
  core_.execute(question.acquisition,
                question.acquisition->acquire->on_deadlock(
                    base::BootClock::now(),
                    Error(Errc::kWouldDeadlock, "waiting could never end: " + cycle +
                                                    "; this wait gives up, release what its owner "
                                                    "holds for the others to go on")));
}

}  // namespace holdfast::session
