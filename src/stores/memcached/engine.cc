#include "src/stores/memcached/engine.h"

#include <algorithm>
#include <future>
#include <utility>

#include <asio/dispatch.hpp>
#include <asio/post.hpp>

#include "src/base/printable.h"
#include "src/base/random.h"
#include "src/stores/memcached/protocol/replies.h"
#include "src/stores/memcached/step.h"

namespace holdfast::stores::memcached {
namespace {

using base::BootClock;
using base::BootInstant;
using machine::AcquisitionId;
using machine::Duration;
using machine::Instant;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::size_t kMostJoined = 4096;
constexpr milliseconds kExpiryTick{100};

Error closed_error() { return {Errc::kClosed, "the memcached store was closed"}; }

}  // namespace

Engine::Engine(const MemcachedAddress& address, const port::StoreContext& context, Tuning tuning)
    : io_(*context.io),
      loop_(context.loop),
      listener_(context.listener),
      address_(address),
      tuning_(std::move(tuning)),
      sightings_(tuning_.sightings ? tuning_.sightings : std::make_shared<Sightings>()),
      here_(address.display(), address.connect_timeout,
            {.floor = [this] { return floor(); },
             .withdraw = [this](const std::string& name,
                                AcquisitionId id) { refuse_later(name, id); },
             .late =
                 [this](AcquisitionId id) {
                   const base::LocalLock lock(mutex_);
                   late_here_.push_back(id);
                 }}),
      timer_(io_) {
  const auto tell = [loop = loop_, listener = listener_](std::string line) {
    loop->post([listener, line = std::move(line)] { listener->on_alarm(line); });
  };
  Link::Hooks hooks;
  hooks.on_connected = [this, tell] {
    here_.link().set_server(links_[0]->server());
    if (std::exchange(lost_, false)) tell(this->address() + ": connected again");
  };
  hooks.on_lost = [this, tell](const std::string& why) {
    here_.link().set_server(std::nullopt);
    if (!opened_ || std::exchange(lost_, true)) return;
    tell(this->address() +
         ": the connection is lost; reconnecting. Waiters keep waiting, leases last until their "
         "deadlines: " +
         why);
  };
  links_[0] = std::make_shared<Link>(io_, address_, std::move(hooks));
  links_[1] = std::make_shared<Link>(io_, address_, Link::Hooks{});
}

Instant Engine::now() const {
  if (tuning_.now) return tuning_.now();
  return Instant(std::chrono::duration_cast<Duration>(BootClock::now().time_since_epoch()));
}

// Tokens are above it: microseconds of the wall clock, so that they mostly grow also over a loss.
std::uint64_t Engine::floor() {
  const auto wall = std::chrono::duration_cast<microseconds>(base::wall_now().time_since_epoch());
  const auto least = static_cast<std::uint64_t>(std::max<std::int64_t>(wall.count(), 0));
  std::uint64_t before = floor_;
  while (before < least && !floor_.compare_exchange_weak(before, least)) continue;
  return std::max(before, least);
}

void Engine::on_loop(port::Task task) {
  asio::dispatch(io_, [self = shared_from_this(), task = std::move(task)] { task(); });
}

void Engine::submit(CommandPtr command) {
  if (command->ends) here_.end(command->id);
  bool first = false;
  {
    const base::LocalLock lock(mutex_);
    if (command->ends) ++ends_under_way_;
    first = inbox_.empty();
    inbox_.push_back(std::move(command));
  }
  if (io_.get_executor().running_in_this_thread()) return take_in();
  // One turn of the loop takes all that come before it.
  if (first) asio::post(io_, [self = shared_from_this()] { self->take_in(); });
}

void Engine::take_in() {
  std::vector<CommandPtr> commands;
  {
    const base::LocalLock lock(mutex_);
    commands.swap(inbox_);
    for (const AcquisitionId& id : std::exchange(late_here_, {})) late_.add(id);
  }
  for (CommandPtr& command : commands) {
    enlist(command);
    if (closed_) {
      fail_closed(command);
    } else {
      enqueue(std::move(command));
    }
  }
}

void Engine::enlist(const CommandPtr& command) {
  command->place = live_.size();
  live_.push_back(command);
}

void Engine::fail_closed(const CommandPtr& command) {
  loop_->post([self = shared_from_this(), command] {
    if (self->take(command)) command->fail(closed_error());
  });
}

bool Engine::take(const CommandPtr& command) {
  const std::size_t place = std::exchange(command->place, Command::kEnded);
  if (place == Command::kEnded) return false;
  if (place + 1 < live_.size()) {
    live_[place] = std::move(live_.back());
    live_[place]->place = place;
  }
  live_.pop_back();
  if (command->ends) {
    const base::LocalLock lock(mutex_);
    if (--ends_under_way_ == 0) ended_one_.notify_all();
  }
  return true;
}

void Engine::ask(std::string request, BootInstant deadline, Replied replied) {
  auto command = std::make_shared<OwnCommand>();
  command->failed = [replied](const Error& why) { replied(why); };
  on_loop([this, command, request = std::move(request), deadline, replied]() mutable {
    enlist(command);
    if (closed_) return fail_closed(command);
    links_[0]->send({std::move(request), deadline, [this, command, replied](Answer answer) {
                       if (!take(command)) return;
                       if (answer.fate == Fate::kDone) return replied(std::move(answer.reply));
                       replied(Error(answer.code, this->address() + ": " + answer.why));
                     }});
  });
}

void Engine::look(std::string name, BootInstant deadline, Seen seen) {
  std::string request = get_request(key_of(name), /*value=*/true);
  ask(std::move(request), deadline, [this, name, seen](Result<Reply> reply) {
    if (!reply) return seen(reply.error());
    auto document = document_of(*reply, name);
    if (!document) return seen(corrupt(name, document.error()));
    if (*document) sightings_->add_ends((*document)->image, now());
    seen(*std::move(document));
  });
}

Error Engine::corrupt(const std::string& name, const Error& why) const {
  return {why.code(), address() + ": lock '" + base::printable(name) + "': " + why.message()};
}

InlineSteps::Acquired Engine::acquire_here(const port::AcquireRequest& request) {
  if (tuning_.now) return std::nullopt;
  machine::LockImage lock;
  auto acquired = here_.acquire(request, now(), lock);
  if (acquired && *acquired) sightings_->note(lock);
  return acquired;
}

InlineSteps::Ended Engine::release_here(const port::AcquisitionRequest& request) {
  auto ended = here_.release(request, now());
  if (ended) sightings_->forget(request.name);
  return ended;
}

void Engine::close(BootInstant deadline) {
  here_.link().close();
  {
    const base::LocalLock lock(mutex_);
    for (auto now = BootClock::now(); ends_under_way_ > 0 && now < deadline;
         now = BootClock::now()) {
      ended_one_.wait_for(mutex_, deadline - now);
    }
  }
  std::promise<void> over;
  auto waiting = over.get_future();
  loop_->post([this, &over] {
    take_in();
    closed_ = true;
    for (const auto& link : links_) link->close();
    timer_.stop();
    timers_.clear();
    locks_.clear();
    for (const CommandPtr& command : std::exchange(live_, {})) {
      command->place = Command::kEnded;
      command->fail(closed_error());
    }
    over.set_value();
  });
  waiting.wait();
}

void Engine::abandon() noexcept {
  for (const auto& link : links_) link->abandon();
  here_.link().abandon();
  timer_.abandon();
}

// --- Order

void Engine::enqueue(CommandPtr command) {
  if (command->acquires && late_.contains(command->id)) command->written = true;
  if (command->ends) {
    ended_.add(command->id);
    waiting_.remove(command->name, command->id);
  }
  watch_deadlines();
  const auto lock = locks_.try_emplace(command->name).first;
  command->queued = true;
  lock->second.waiting.push_back(std::move(command));
  if (!lock->second.busy) start_next(lock);
}

void Engine::start_next(Locks::iterator lock) {
  std::vector<CommandPtr>& waiting = lock->second.waiting;
  auto step = std::make_shared<Step>();
  std::size_t taken = 0;
  for (; taken < waiting.size() && step->commands.size() < kMostJoined; ++taken) {
    CommandPtr& command = waiting[taken];
    command->queued = false;
    if (command->place != Command::kEnded) step->commands.push_back(std::move(command));
  }
  waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(taken));
  if (step->commands.empty()) {
    if (lock->second.idle()) locks_.erase(lock);
    return;
  }
  lock->second.busy = true;
  step->name = lock->first;
  here_.forget(step->name);
  begin(step);
}

void Engine::begin(const StepPtr& step) {
  if (!guess(step)) read(step);
}

void Engine::finish(const std::string& name) {
  const auto lock = locks_.find(name);
  if (lock == locks_.end()) return;  // Closed.
  lock->second.busy = false;
  if (!lock->second.waiting.empty()) return start_next(lock);
  lock->second.waiting.shrink_to_fit();
  if (lock->second.idle()) locks_.erase(lock);
}

// Ends commands whose deadline passes while they wait behind a long step.
void Engine::watch_deadlines() {
  if (std::exchange(expiring_, true)) return;
  at(BootClock::now() + kExpiryTick, [this] {
    expiring_ = false;
    expire_waiting();
    if (!live_.empty()) watch_deadlines();
  });
}

void Engine::expire_waiting() {
  const BootInstant now = BootClock::now();
  std::vector<CommandPtr> late;
  for (const CommandPtr& command : live_) {
    if (command->queued && command->deadline <= now) late.push_back(command);
  }
  for (const CommandPtr& command : late) fail(command, "no answer in time");
}

void Engine::at(BootInstant when, port::Task task) {
  const bool first = timers_.empty() || when < timers_.begin()->first;
  timers_.emplace(when, std::move(task));
  if (first) timer_.arm_at(when, [this] { run_timers(); });
}

void Engine::run_timers() {
  const auto self = shared_from_this();
  while (!closed_ && !timers_.empty() && timers_.begin()->first <= BootClock::now()) {
    const port::Task task = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    task();
  }
  if (closed_ || timers_.empty()) return;
  timer_.arm_at(timers_.begin()->first, [this] { run_timers(); });
}

}  // namespace holdfast::stores::memcached
