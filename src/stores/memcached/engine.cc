#include "src/stores/memcached/engine.h"

#include <algorithm>
#include <bit>
#include <future>
#include <utility>

#include <asio/dispatch.hpp>

#include "src/base/printable.h"
#include "src/base/random.h"
#include "src/port/outcome.h"
#include "src/rows/lock_rows.h"
#include "src/stores/memcached/replies.h"
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
constexpr std::size_t kMostKnown = 65'536;
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
      random_(static_cast<std::minstd_rand::result_type>(base::random_128().low)),
      timer_(io_) {
  const auto tell = [loop = loop_, listener = listener_](std::string line) {
    loop->post([listener, line = std::move(line)] { listener->on_alarm(line); });
  };
  Link::Hooks hooks;
  hooks.on_connected = [this, tell] {
    if (std::exchange(lost_, false)) tell(this->address() + ": connected again");
  };
  hooks.on_lost = [this, tell](const std::string& why) {
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
  floor_ = std::max(floor_, static_cast<std::uint64_t>(std::max<std::int64_t>(wall.count(), 0)));
  return floor_;
}

void Engine::on_loop(port::Task task) {
  asio::dispatch(io_, [self = shared_from_this(), task = std::move(task)] { task(); });
}

void Engine::submit(CommandPtr command) {
  if (command->ends) {
    const base::LocalLock lock(mutex_);
    ++ends_under_way_;
  }
  asio::dispatch(io_, [self = shared_from_this(), command = std::move(command)]() mutable {
    self->live_.insert(command);
    if (!self->closed_) return self->enqueue(std::move(command));
    self->loop_->post([self, command] {
      if (self->take(command)) command->fail(closed_error());
    });
  });
}

bool Engine::take(const CommandPtr& command) {
  if (live_.erase(command) == 0) return false;
  if (command->ends) {
    const base::LocalLock lock(mutex_);
    if (--ends_under_way_ == 0) ended_one_.notify_all();
  }
  return true;
}

void Engine::ask(std::string request, BootInstant deadline, Replied replied) {
  auto command = std::make_shared<Command>();
  command->fail = [replied](const Error& why) { replied(why); };
  on_loop([this, command, request = std::move(request), deadline, replied]() mutable {
    live_.insert(command);
    if (closed_) {
      return loop_->post([self = shared_from_this(), command] {
        if (self->take(command)) command->fail(closed_error());
      });
    }
    links_[0]->send({std::move(request), deadline, [this, command, replied](Answer answer) {
                       if (!take(command)) return;
                       if (answer.fate == Fate::kDone) return replied(std::move(answer.reply));
                       replied(Error(Errc::kUnavailable, this->address() + ": " + answer.why));
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

void Engine::close(BootInstant deadline) {
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
    closed_ = true;
    for (const auto& link : links_) link->close();
    timer_.stop();
    timers_.clear();
    queues_.clear();
    for (const CommandPtr& command : std::exchange(live_, {})) command->fail(closed_error());
    over.set_value();
  });
  waiting.wait();
}

void Engine::abandon() noexcept {
  for (const auto& link : links_) link->abandon();
  timer_.abandon();
}

// --- Order

void Engine::enqueue(CommandPtr command) {
  if (command->ends) {
    ended_.add(command->id);
    waiting_.remove(command->name, command->id);
  }
  watch_deadlines();
  Queue& queue = queues_[command->name];
  const std::string& name = command->name;
  queue.waiting.push_back(std::move(command));
  if (!queue.busy) start_next(name);
}

void Engine::start_next(const std::string& name) {
  const auto found = queues_.find(name);
  if (found == queues_.end() || found->second.busy) return;
  Queue& queue = found->second;
  if (queue.waiting.empty()) {
    queues_.erase(found);
    return;
  }
  queue.busy = true;
  auto step = std::make_shared<Step>();
  step->name = found->first;
  while (!queue.waiting.empty() && step->commands.size() < kMostJoined) {
    step->commands.push_back(std::move(queue.waiting.front()));
    queue.waiting.pop_front();
  }
  begin(step);
}

void Engine::begin(const StepPtr& step) {
  if (!guess(step)) read(step);
}

void Engine::finish(const std::string& name) {
  const auto found = queues_.find(name);
  if (found == queues_.end()) return;  // Closed.
  found->second.busy = false;
  start_next(name);
}

// Those that wait behind a step that takes long.
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
  for (auto& [name, queue] : queues_) {
    std::erase_if(queue.waiting, [&](const CommandPtr& command) {
      if (command->deadline > now) return false;
      late.push_back(command);
      return true;
    });
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

// --- Steps

BootInstant Engine::deadline_of(const Step& step) const {
  BootInstant least = BootClock::now() + address_.connect_timeout;  // A dead one is replaced.
  for (const CommandPtr& command : step.commands) least = std::min(least, command->deadline);
  return least;
}

std::size_t Engine::link_of(const Step& step) const {
  const bool renews = std::all_of(step.commands.begin(), step.commands.end(),
                                  [](const CommandPtr& command) { return command->renews; });
  return renews ? 1 : 0;
}

// The document as this client left it, or none for an acquire. False: it is to be read.
bool Engine::guess(const StepPtr& step) {
  if (const auto found = known_.find(step->name); found != known_.end()) {
    Known known = std::move(found->second);
    known_.erase(found);
    const Version& version = known.version;
    if (version.generation != links_[version.link]->generation()) return false;
    if (version.link < link_of(*step)) return false;  // Renewals have their own connection.
    step->guessed = true;
    run(step, version, std::move(known.document));
    return true;
  }
  const Command& first = *step->commands.front();
  if (!first.acquires || step->commands.size() > 1 || waiting_.contains(step->name)) return false;
  step->guessed = true;
  Document none;
  none.image.name = step->name;
  run(step, {}, std::move(none));
  return true;
}

void Engine::read(const StepPtr& step) {
  step->guessed = false;
  const std::size_t link = link_of(*step);
  links_[link]->send({get_request(key_of(step->name), /*value=*/true), deadline_of(*step),
                      [this, step, link](const Answer& answer) {
                        on_read(step, {link, links_[link]->generation(), 0}, answer);
                      }});
}

void Engine::on_read(const StepPtr& step, Version version, const Answer& answer) {
  if (answer.fate != Fate::kDone) return again(step, &answer);
  auto document = document_of(answer.reply, step->name);
  if (!document) return fail_all(step, corrupt(step->name, document.error()));
  Document present;
  present.image.name = step->name;
  if (*document) {
    present = **std::move(document);
    version.number = answer.reply.number;
    sightings_->add_ends(present.image, now());
  } else {
    sightings_->forget(step->name);
  }
  run(step, version, std::move(present));
}

void Engine::run(const StepPtr& step, Version version, Document document) {
  auto ran = std::make_shared<Ran>();
  ran->version = version;
  ran->before = std::move(document);
  ran->at = now();
  if (!run_machine(*step, *ran)) {
    return fail_all(step, corrupt(step->name, Error(Errc::kCorruptState,
                                                    "its tickets contradict each other: was the "
                                                    "item changed by hand?")));
  }
  make_document(*step, *ran);
  if (ran->changed) return write(step, ran);
  if (step->guessed) return read(step);  // Only a write shows that it was right.
  answer_all(step, *ran);
}

bool Engine::run_machine(const Step& step, Ran& ran) {
  machine::Limits limits;
  const std::size_t tickets = ran.before.image.tickets.size() + step.commands.size();
  limits.chunk = static_cast<std::uint32_t>(std::bit_ceil(std::min<std::size_t>(tickets, 1024)));
  ran.machine.emplace(machine::Token{0, floor()}, limits);
  if (ran.version.number != 0 && !ran.machine->restore_lock(ran.before.image)) return false;
  ran.answers.reserve(step.commands.size());
  for (const CommandPtr& command : step.commands) ran.answers.push_back(apply(*command, ran));
  return true;
}

Applied Engine::apply(const Command& command, Ran& ran) {
  Applied applied;
  applied.at = ran.at;
  applied.before = &ran.before;
  if (command.acquires && ended_.contains(command.id)) {
    applied.reply.outcome = machine::Outcome::kGone;
  } else if (command.action) {
    applied.reply = ran.machine->apply({ran.at, command.action()}, ran.effects);
  }
  const bool refused = applied.reply.outcome == machine::Outcome::kMismatch ||
                       applied.reply.outcome == machine::Outcome::kInvalid ||
                       applied.reply.outcome == machine::Outcome::kGone;
  if (command.looks || (command.acquires && refused)) {
    applied.after = ran.machine->inspect(command.name);
  }
  return applied;
}

void Engine::make_document(const Step& step, Ran& ran) const {
  Document& after = ran.after;
  after.keep = ran.before.keep;
  after.broken = ran.before.broken;
  for (const machine::Effect& effect : ran.effects) {
    if (effect.kind != machine::EffectKind::kBroken) continue;
    after.broken = Document::Broken{effect.token, effect.owner};  // For its holder to read.
  }
  for (const CommandPtr& command : step.commands) {
    after.keep = after.keep || command->refuses ||
                 (command->ends && late_.contains(command->id));
  }
  ran.changed = rows::changes_anything(ran.effects) || after.keep != ran.before.keep;
  auto image = ran.machine->inspect(step.name);
  ran.exists = image.has_value() || after.keep || after.broken;
  if (image) {
    after.image = *std::move(image);
  } else {
    after.image.name = step.name;
    after.image.last_token = std::max(ran.before.image.last_token, ran.machine->floor());
  }
}

void Engine::write(const StepPtr& step, const RanPtr& ran) {
  const std::string key = key_of(step->name);
  std::string request;
  if (ran->exists) {
    const std::string bytes = encode(ran->after);
    if (bytes.size() > kLargestDocument) return refuse_large(step);
    request = set_request(key, bytes, ran->version.number, expiry_seconds(ran->after));
  } else if (ran->version.number != 0) {
    request = delete_request(key, ran->version.number);
  } else {
    return answer_all(step, *ran);  // There was nothing, and nothing is left of what came.
  }
  if (ran->version.number == 0) ran->version.link = link_of(*step);
  const std::uint64_t only = ran->version.number == 0 ? 0 : ran->version.generation;
  links_[ran->version.link]->send(
      {std::move(request), deadline_of(*step),
       [this, step, ran](const Answer& answer) { on_written(step, ran, answer); }, only});
}

void Engine::on_written(const StepPtr& step, const RanPtr& ran, const Answer& answer) {
  if (answer.fate == Fate::kUnknown) {
    for (const CommandPtr& command : step->commands) command->written = true;
  }
  if (answer.fate != Fate::kDone) return again(step, &answer);
  switch (answer.reply.kind) {
    case Reply::Kind::kDone:
      ran->version.generation = links_[ran->version.link]->generation();
      ran->version.number = ran->exists ? answer.reply.number : 0;
      return answer_all(step, *ran);
    case Reply::Kind::kMissing:
    case Reply::Kind::kConflict:
      if (step->guessed) return read(step);
      return again(step, nullptr);
    case Reply::Kind::kRefused:
      return fail_all(step, Error(Errc::kUnavailable,
                                  address() + ": the server refused to store the lock: " +
                                      answer.reply.text + ": see docs/stores/memcached.md"));
    case Reply::Kind::kValue:
    case Reply::Kind::kText:
      return fail_all(step, Error(Errc::kCorruptState,
                                  address() + ": the server answers a write with something else"));
  }
}

// The acquires of the step are too many; the others go on without them.
void Engine::refuse_large(const StepPtr& step) {
  const Error why(Errc::kQueueFull, address() + ": lock '" + base::printable(step->name) +
                                        "': the queue is as long as one item of memcached can "
                                        "hold: try again later, or limit the waiters");
  const bool acquires = std::any_of(step->commands.begin(), step->commands.end(),
                                    [](const CommandPtr& command) { return command->acquires; });
  if (!acquires) return fail_all(step, why);
  std::erase_if(step->commands, [&](const CommandPtr& command) {
    if (command->acquires && take(command)) command->fail(why);
    return command->acquires;
  });
  if (step->commands.empty()) return finish(step->name);
  read(step);
}

// A lock that only this client seems to use is not read again.
void Engine::remember(Ran& ran) {
  if (!ran.changed || !ran.exists || ran.version.number == 0) return;
  if (ran.after.image.tickets.size() > 1) return;
  if (known_.size() >= kMostKnown) known_.clear();
  const std::string name = ran.after.image.name;
  known_.insert_or_assign(name, Known{ran.version, std::move(ran.after)});
}

void Engine::answer_all(const StepPtr& step, Ran& ran) {
  if (ran.exists) {
    sightings_->note(ran.after.image);
  } else {
    sightings_->forget(step->name);
  }
  for (std::size_t i = 0; i < step->commands.size(); ++i) {
    const CommandPtr& command = step->commands[i];
    const machine::Outcome outcome = ran.answers[i].reply.outcome;
    settle(*command, outcome);
    if (command->waits) {
      if (outcome == machine::Outcome::kWaiting) {
        waiting_.add(command->name, command->id);
      } else {
        waiting_.remove(command->name, command->id);
      }
    }
    if (take(command)) command->answer(ran.answers[i]);
  }
  tell_waiters(ran);
  remember(ran);
  finish(step->name);
}

// `lost`: nullptr: somebody was faster.
void Engine::again(const StepPtr& step, const Answer* lost) {
  const BootInstant now = BootClock::now();
  const bool never_sent = lost != nullptr && lost->fate == Fate::kNotSent;
  const std::string why = lost != nullptr ? lost->why : "others changed the lock all the time";
  std::erase_if(step->commands, [&](const CommandPtr& command) {
    // A write that was bound to a connection is tried again on the next one.
    const bool go_on =
        now < command->deadline && (!never_sent || command->written || step->tries == 0);
    if (!go_on) fail(command, why);
    return !go_on;
  });
  if (step->commands.empty()) return finish(step->name);
  ++step->tries;
  auto pause = random_pause(step->tries);
  if (lost != nullptr) pause += milliseconds(10);
  at(now + pause, [this, step] { read(step); });
}

microseconds Engine::random_pause(int tries) {
  const int most = 500 << std::min(tries, 6);
  return microseconds(std::uniform_int_distribution<int>(0, most)(random_));
}

// --- The end of a command

void Engine::fail_all(const StepPtr& step, const Error& why) {
  for (const CommandPtr& command : step->commands) {
    if (command->written && command->acquires) late_.add(command->id);
    if (!take(command)) continue;
    command->fail(command->written ? Error(Errc::kOutcomeUnknown, why.message()) : why);
  }
  finish(step->name);
}

void Engine::fail(const CommandPtr& command, const std::string& why) {
  // Whoever asked will cancel or release it: that leaves the mark.
  if (command->acquires && command->written) late_.add(command->id);
  if (!take(command)) return;
  const std::string what = address() + ": " + why;
  if (command->written) {
    command->fail({Errc::kOutcomeUnknown, what + "; the request may have been carried out"});
  } else {
    command->fail({Errc::kUnavailable, what});
  }
}

// A request of an acquisition that was sent more than once may arrive after its end.
void Engine::settle(const Command& command, machine::Outcome outcome) {
  if (!command.acquires || !command.written) return;
  late_.add(command.id);
  if (outcome != machine::Outcome::kHeld && outcome != machine::Outcome::kWaiting) {
    refuse_later(command.name, command.id);
  }
}

void Engine::refuse_later(const std::string& name, AcquisitionId id) {
  auto command = std::make_shared<Command>();
  command->name = name;
  command->id = id;
  command->refuses = true;
  command->deadline = BootClock::now() + std::chrono::seconds(30);
  command->action = [name, id]() -> machine::Action { return machine::Cancel{name, id, {}}; };
  command->answer = [](const Applied&) {};
  command->fail = [](const Error&) {};
  submit(std::move(command));
}

}  // namespace holdfast::stores::memcached
