// The engine's part for tickets that wait.
#include <algorithm>
#include <utility>

#include "src/port/outcome.h"
#include "src/stores/memcached/engine.h"
#include "src/stores/memcached/step.h"

namespace holdfast::stores::memcached {
namespace {

using base::BootClock;
using base::BootInstant;
using std::chrono::milliseconds;

// Locks that are due so soon are asked about together.
constexpr milliseconds kTogether{2};
constexpr milliseconds kPatience{2000};

}  // namespace

// After each step on a lock that this client waits for.
void Engine::tell_waiters(const Ran& ran) {
  const std::string& name = ran.after.image.name;
  if (!waiting_.contains(name)) return;
  for (const auto& news : waiting_.compare(ran.after.image)) {
    port::Push push;
    push.id = news.id;
    push.kind = news.held != nullptr ? port::Push::Kind::kGranted : port::Push::Kind::kHint;
    if (news.held != nullptr) push.state = port::held_state(*news.held);
    loop_->post([listener = listener_, push] { listener->on_push(push); });
  }
  auto* const lock = waiting_.find(name);
  if (lock == nullptr) return;
  if (!lock->seen || *lock->seen != ran.version) waiting_.changed(*lock);
  lock->seen = ran.version;
  lock->asked = false;
  set_due(name);
}

void Engine::set_due(const std::string& name) {
  auto* const lock = waiting_.find(name);
  if (lock == nullptr) return;
  waiting_.set_due(*lock, BootClock::now(), jitter_);
  if (lock->lease_end && !tuning_.now) {
    // Not before it is over: the machine would find nothing to do.
    const BootInstant end(lock->lease_end->time_since_epoch() + std::chrono::microseconds(1));
    lock->due = std::min(lock->due, std::max(end, BootClock::now() + kTogether));
  }
  arm_poll(lock->due);
}

void Engine::arm_poll(BootInstant when) {
  if (poll_at_ && *poll_at_ <= when) return;
  poll_at_ = when;
  at(when, [this, when] {
    if (poll_at_ != when) return;  // Another one was armed, which is earlier.
    poll_at_.reset();
    poll();
  });
}

void Engine::poll() {
  const BootInstant due = BootClock::now() + kTogether;
  std::vector<std::string> looks;
  std::optional<BootInstant> next;
  for (auto& [name, lock] : waiting_.locks()) {
    if (lock.asked) continue;
    if (lock.due > due) {
      next = std::min(next.value_or(lock.due), lock.due);
      continue;
    }
    lock.asked = true;
    const bool ended = ran_out(lock);
    if (!lock.seen || ended || lock.seen->link != 0 ||
        lock.seen->generation != links_[0]->generation()) {
      looks.push_back(name);
      continue;
    }
    links_[0]->send({get_request(key_of(name), /*value=*/false), BootClock::now() + kPatience,
                     [this, name = name, version = *lock.seen](const Answer& answer) {
                       on_polled(name, version, answer);
                     }});
  }
  for (const std::string& name : looks) look_for_waiters(name);
  if (next) arm_poll(*next);
}

void Engine::on_polled(const std::string& name, const Version& version, const Answer& answer) {
  auto* const lock = waiting_.find(name);
  if (lock == nullptr || !lock->asked) return;
  const bool same = answer.fate == Fate::kDone && answer.reply.kind == Reply::Kind::kDone &&
                    links_[0]->generation() == version.generation &&
                    answer.reply.number == version.number;
  if (!same && answer.fate == Fate::kDone) return look_for_waiters(name);
  lock->asked = false;
  waiting_.not_changed(*lock, address_.poll);
  set_due(name);
}

// A test that lets time pass wants to send the command itself that sees it.
bool Engine::ran_out(const WaitingTickets<Version>::Lock& lock) const {
  return !tuning_.now && lock.lease_end && *lock.lease_end <= now();
}

// Reads the document; where a lease has run out, the machine drops it.
void Engine::look_for_waiters(const std::string& name) {
  auto* const waits = waiting_.find(name);
  if (waits == nullptr) return;
  auto command = std::make_shared<OwnCommand>();
  command->name = name;
  command->deadline = BootClock::now() + kPatience;
  if (ran_out(*waits)) command->act = []() -> machine::Action { return machine::Tick{}; };
  command->failed = [this, name](const Error&) {
    auto* const lock = closed_ ? nullptr : waiting_.find(name);
    if (lock == nullptr) return;
    lock->asked = false;
    waiting_.not_changed(*lock, address_.poll);
    set_due(name);
  };
  submit(std::move(command));
}

}  // namespace holdfast::stores::memcached
