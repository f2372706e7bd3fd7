// The engine's part for one step: reading, running, writing and answering.
#include <algorithm>
#include <bit>
#include <utility>
#include <variant>

#include "src/base/printable.h"
#include "src/rows/lock_rows.h"
#include "src/stores/memcached/alone.h"
#include "src/stores/memcached/engine.h"
#include "src/stores/memcached/protocol/replies.h"
#include "src/stores/memcached/step.h"

namespace holdfast::stores::memcached {
namespace {

using base::BootClock;
using base::BootInstant;
using machine::AcquisitionId;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::size_t kMostKnown = 65'536;

}  // namespace

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
  const Known known = std::exchange(locks_.at(step->name).known, {});
  if (!known.bytes.empty()) {
    --known_;
    const Version& version = known.version;
    if (version.generation != links_[version.link]->generation()) return false;
    if (version.link < link_of(*step)) return false;  // Renewals have their own connection.
    if (release_alone(*step, known)) {
      step->guessed = true;
      write(step);
      return true;
    }
    auto document = decode(known.bytes);
    if (!document || !sightings_->recall_ends(document->image)) return false;
    step->guessed = true;
    run(step, version, *std::move(document));
    return true;
  }
  const Command& first = *step->commands.front();
  if (!first.acquires || step->commands.size() > 1 || waiting_.contains(step->name)) return false;
  if (here_.found_busy(first.id)) return false;
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
  Ran& ran = step->ran = {};
  ran.version = version;
  ran.before = std::move(document);
  ran.at = now();
  if (!acquire_alone(*step)) {
    if (!run_machine(*step)) {
      return fail_all(step, corrupt(step->name, Error(Errc::kCorruptState,
                                                      "its tickets contradict each other: was the "
                                                      "item changed by hand?")));
    }
    make_document(*step);
  }
  if (ran.changed) return write(step);
  if (step->guessed) return read(step);  // Only a write shows that it was right.
  answer_all(step);
}

// The two commonest steps, without the machine.
bool Engine::acquire_alone(Step& step) {
  if (step.commands.size() != 1) return false;
  const Command& command = *step.commands.front();
  Ran& ran = step.ran;
  if (!command.acquires || ran.version.number != 0 || ended_.contains(command.id)) return false;
  const auto action = command.action();
  const auto reply =
      take_alone(std::get<machine::Acquire>(*action), ran.at, floor(), ran.after.image);
  if (!reply) return false;
  ran.after.image.name = step.name;
  ran.exists = ran.changed = true;
  ran.answers.push_back({*reply, ran.at, std::nullopt, &ran.before});
  return true;
}

bool Engine::release_alone(Step& step, const Known& known) {
  if (step.commands.size() != 1) return false;
  const Command& command = *step.commands.front();
  if (!command.ends || command.id != known.holder || late_.contains(command.id)) return false;
  Ran& ran = step.ran = {};
  ran.version = known.version;
  ran.at = now();
  if (known.lease_end <= ran.at) return false;
  ran.before.image.name = ran.after.image.name = step.name;
  ran.changed = true;
  ran.answers.push_back({{.outcome = machine::Outcome::kReleased}, ran.at, {}, &ran.before});
  return true;
}

bool Engine::run_machine(Step& step) {
  Ran& ran = step.ran;
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
  } else if (auto action = command.action()) {
    applied.reply = ran.machine->apply({ran.at, *std::move(action)}, ran.effects);
  }
  const bool refused = applied.reply.outcome == machine::Outcome::kMismatch ||
                       applied.reply.outcome == machine::Outcome::kInvalid ||
                       applied.reply.outcome == machine::Outcome::kGone;
  if (command.looks || (command.acquires && refused)) {
    applied.after = ran.machine->inspect(command.name);
  }
  return applied;
}

void Engine::make_document(Step& step) const {
  Ran& ran = step.ran;
  Document& after = ran.after;
  after.keep = ran.before.keep;
  after.broken = ran.before.broken;
  for (const machine::Effect& effect : ran.effects) {
    if (effect.kind != machine::EffectKind::kBroken) continue;
    after.broken = Document::Broken{effect.token, effect.owner};  // For its holder to read.
  }
  for (const CommandPtr& command : step.commands) {
    after.keep = after.keep || command->refuses || (command->ends && late_.contains(command->id));
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

void Engine::write(const StepPtr& step) {
  Ran& ran = step->ran;
  std::string request;
  if (ran.exists) {
    encode(ran.after, bytes_);
    if (bytes_.size() > kLargestDocument) return refuse_large(step);
    ran.bytes = ran.after.image.tickets.size() > 1 ? std::string() : bytes_;
    request =
        set_request(key_of(step->name), bytes_, ran.version.number, expiry_seconds(ran.after));
  } else if (ran.version.number != 0) {
    request = delete_request(key_of(step->name), ran.version.number);
  } else {
    return answer_all(step);  // There was nothing, and nothing is left of what came.
  }
  if (ran.version.number == 0) ran.version.link = link_of(*step);
  const std::uint64_t only = ran.version.number == 0 ? 0 : ran.version.generation;
  links_[ran.version.link]->send({std::move(request), deadline_of(*step),
                                  [this, step](const Answer& answer) { on_written(step, answer); },
                                  only});
}

void Engine::on_written(const StepPtr& step, const Answer& answer) {
  Ran& ran = step->ran;
  if (answer.fate == Fate::kUnknown) {
    for (const CommandPtr& command : step->commands) command->written = true;
  }
  if (answer.fate != Fate::kDone) return again(step, &answer);
  switch (answer.reply.kind) {
    case Reply::Kind::kDone:
      ran.version.generation = links_[ran.version.link]->generation();
      ran.version.number = ran.exists ? answer.reply.number : 0;
      return answer_all(step);
    case Reply::Kind::kMissing:
    case Reply::Kind::kConflict:
      // A guess was made without reading, so this is the first look and no lost race.
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
void Engine::remember(Step& step) {
  Ran& ran = step.ran;
  if (!ran.changed || !ran.exists || ran.version.number == 0) return;
  if (ran.bytes.empty()) return;
  if (known_ >= kMostKnown) forget_all();
  const auto lock = locks_.find(step.name);
  if (lock == locks_.end()) return;  // Closed.
  lock->second.known = Known{ran.version, std::move(ran.bytes)};
  if (!ran.after.image.tickets.empty()) {
    const machine::TicketImage& ticket = ran.after.image.tickets.front();
    if (leave_alone(ran.after, ticket.id, ran.at)) {
      lock->second.known.holder = ticket.id;
      lock->second.known.lease_end = ticket.lease_end;
    }
  }
  ++known_;
}

void Engine::forget_all() {
  for (auto& [name, lock] : locks_) lock.known = {};
  std::erase_if(locks_, [](const auto& lock) { return lock.second.idle(); });
  known_ = 0;
}

void Engine::answer_all(const StepPtr& step) {
  Ran& ran = step->ran;
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
  remember(*step);
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
  auto pause = jitter_.after_race(step->tries);
  if (lost != nullptr) pause += milliseconds(10);
  at(now + pause, [this, step] { read(step); });
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
  auto command = std::make_shared<OwnCommand>();
  command->name = name;
  command->id = id;
  command->refuses = true;
  command->deadline = BootClock::now() + std::chrono::seconds(30);
  command->act = [name, id]() -> machine::Action { return machine::Cancel{name, id, {}}; };
  submit(std::move(command));
}

}  // namespace holdfast::stores::memcached
