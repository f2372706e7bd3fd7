// Steps: a lock is read, the machine runs here, and what changed is written.
#include <algorithm>
#include <map>

#include "src/base/printable.h"
#include "src/base/random.h"
#include "src/port/outcome.h"
#include "src/rows/owner_codec.h"
#include "src/sql/engine.h"

namespace holdfast::sql {
namespace {

using base::BootClock;
using base::BootInstant;
using machine::AcquisitionId;
using machine::Duration;
using machine::Instant;
using machine::LockMachine;
using std::chrono::milliseconds;

// The server's clock was set back by more: a lease that is renewed then would not get longer.
constexpr Duration kSetBack = std::chrono::milliseconds(100);
constexpr std::size_t kMostCrowded = 4096;
constexpr int kTriesAtOnce = 3;
// How long after a lost connection a statement of it may still be executed.
constexpr Duration kTombstone = std::chrono::minutes(5);

std::string payload_of(const AcquisitionId& id,
                       const std::optional<port::AcquisitionState>& state) {
  std::string text = base::to_hex(id.high, id.low);
  if (!state) return text;
  return text + ' ' + std::to_string(state->token.counter) + ' ' + std::to_string(state->seq) +
         ' ' + std::to_string(state->lease.count());
}

// Whether they are the locks of these names, which are sorted as the server sorts them.
bool are_of(const std::vector<std::string>& names, const std::vector<ReadLock>& locks) {
  return std::equal(
      names.begin(), names.end(), locks.begin(), locks.end(),
      [](const std::string& name, const ReadLock& lock) { return name == lock.stored.image.name; });
}

bool was_set_back(const ReadLock& lock) {
  return lock.version > 0 && lock.stored.at > lock.now + kSetBack.count();
}

}  // namespace

// A lock in a step: its machine, and what has happened to it so far.
struct Engine::Ran {
  struct Lock {
    const ReadLock* read = nullptr;
    std::unique_ptr<LockMachine> machine;
    machine::Effects effects;
    Instant at;
  };
  std::vector<ReadLock> read;
  std::map<std::string, Lock, std::less<>> locks;
  std::vector<std::vector<Applied>> answers;  // One entry per command.
  std::vector<rows::Notice> notices;
};

BootInstant Engine::deadline_of(const Step& step) const {
  // No limit for one try: an answer that is late because the server has much to do would be asked
  // for again, and give it more to do. The link closes a connection that is dead.
  BootInstant least = BootInstant::max();
  for (const CommandPtr& command : step.commands) least = std::min(least, command->deadline);
  return least;
}

void Engine::read(const StepPtr& step) {
  Statement statement{dialect_->read(step->names, now()), deadline_of(*step), {}};
  statement.done = [this, step](Answer answer) { on_read(step, std::move(answer)); };
  link_.send(std::move(statement));
}

void Engine::on_read(const StepPtr& step, Answer answer) {
  if (answer.fate != Fate::kDone) return again(step, &answer);
  auto ran = std::make_shared<Ran>();
  auto locks = read_locks(*answer.rows, dialect_->address());
  if (locks && std::any_of(locks->begin(), locks->end(), &was_set_back)) {
    return follow_clock(step, *locks);
  }
  if (locks && !are_of(step->names, *locks)) {
    locks = Error(Errc::kCorruptState,
                  dialect_->address() + ": the answer to a question about lock '" +
                      base::printable(step->names.front()) +
                      "' is about others: is there a pooler or proxy that mixes up answers?");
  }
  if (locks) ran->read = *std::move(locks);
  if (!locks || !run(step, ran->read, *ran)) {
    const Error why =
        locks ? Error(Errc::kCorruptState,
                      dialect_->address() + ": the tickets of lock '" +
                          base::printable(step->names.front()) +
                          "' contradict each other: were they changed by hand?")
              : locks.error();
    for (const CommandPtr& command : step->commands) {
      if (take(command)) command->fail(why);
    }
    return finish(step->names);
  }
  if (!finish_if_unchanged(step, *ran)) write(step, ran);
}

// Every instant of a lock moves back as far as the clock has, counted from the lock's last command.
// So no lease gets shorter, and renewals count again.
void Engine::follow_clock(const StepPtr& step, const std::vector<ReadLock>& locks) {
  Writes writes;
  for (const ReadLock& lock : locks) {
    if (!was_set_back(lock)) continue;
    const Duration back(lock.stored.at - lock.now);
    machine::LockImage image = lock.stored.image;
    machine::Effects effects;
    for (machine::TicketImage& ticket : image.tickets) {
      if (ticket.system) continue;
      ticket.lease_end -= back;
      machine::Effect& extended = effects.emplace_back();
      extended.kind = machine::EffectKind::kExtended;
      extended.id = ticket.id;
    }
    Instant until{};
    for (machine::TombstoneImage& stone : image.tombstones) {
      until = std::max(until, stone.until -= back);
    }
    if (!image.tombstones.empty()) {
      writes.tombstones.push_back({image.name, image.tombstones});
    }
    const std::int64_t due = lock.stored.due;
    const rows::Outcome outcome{lock.now, due == rows::kNever ? due : due - back.count(), &image,
                                &effects};
    writes.add(rows::changes_of(lock.stored, outcome), lock.version, lock.now,
               until.time_since_epoch().count());
  }
  Statement statement{dialect_->write(writes), deadline_of(*step), {}};
  statement.done = [this, step](const Answer& answer) {
    if (answer.fate != Fate::kDone) return again(step, &answer);
    read(step);
  };
  link_.send(std::move(statement));
}

bool Engine::finish_if_unchanged(const StepPtr& step, const Ran& ran) {
  for (const auto& [name, lock] : ran.locks) {
    if (rows::changes_anything(lock.effects)) return false;
  }
  answer_all(step, ran);
  return true;
}

// Runs the commands in their order. False: rows that no machine could have made.
bool Engine::run(const StepPtr& step, const std::vector<ReadLock>& locks, Ran& ran) {
  for (const ReadLock& read : locks) {
    Ran::Lock lock;
    lock.read = &read;
    lock.at = Instant(Duration(std::max(read.stored.at, read.now)));
    machine::Limits limits;
    limits.chunk = 8;
    const auto floor = static_cast<std::uint64_t>(std::max<std::int64_t>(read.now - 1, 0));
    lock.machine = std::make_unique<LockMachine>(machine::Token{0, floor}, limits);
    if (read.version > 0 && !lock.machine->restore_lock(read.stored.image)) return false;
    ran.locks.emplace(read.stored.image.name, std::move(lock));
  }
  for (const CommandPtr& command : step->commands) {
    ran.answers.emplace_back();
    for (std::size_t part = 0; part < command->parts.size(); ++part) {
      if (run_part(*command, part, ran)) continue;
      // One of several is not to be had: none of them is taken.
      for (auto& [name, lock] : ran.locks) lock.effects.clear();
      ran.notices.clear();
      break;
    }
  }
  return true;
}

// False: of several locks, this one is not held by it.
bool Engine::run_part(const Command& command, std::size_t index, Ran& ran) {
  const Command::Part& part = command.parts[index];
  Ran::Lock& lock = ran.locks.at(part.name);
  Applied applied;
  applied.at = lock.at;
  applied.before = lock.read;
  machine::Effects effects;
  if (command.acquires && ended_.contains(part.id)) {
    applied.reply.outcome = machine::Outcome::kGone;
  } else {
    const Duration tombstone = late_.contains(part.id) ? kTombstone : Duration(0);
    applied.reply = lock.machine->apply({lock.at, part.action(tombstone)}, effects);
  }
  applied.after = lock.machine->inspect(part.name);
  rows::collect_notices(lock.read->stored, effects, part.id, channel_, ran.notices);
  lock.effects.insert(lock.effects.end(), effects.begin(), effects.end());
  const bool held = applied.reply.outcome == machine::Outcome::kHeld;
  ran.answers.back().push_back(std::move(applied));
  return !command.all_or_nothing || held;
}

void Engine::add_writes(const Ran& ran, Writes& writes) const {
  for (const auto& [name, lock] : ran.locks) {
    const auto after = lock.machine->inspect(name);
    const Instant due = lock.machine->next_event().value_or(Instant::max());
    const rows::Outcome outcome{lock.at.time_since_epoch().count(), due.time_since_epoch().count(),
                                after ? &*after : nullptr, &lock.effects};
    rows::Changes changes = rows::changes_of(lock.read->stored, outcome);
    if (changes.value) writes.notifications.push_back({name, value_channel(name), "value"});
    static const std::vector<machine::TombstoneImage> none;
    const auto& stones = after ? after->tombstones : none;
    Instant until{};
    for (const auto& stone : stones) until = std::max(until, stone.until);
    if (stones != lock.read->stored.image.tombstones) writes.tombstones.push_back({name, stones});
    writes.add(std::move(changes), lock.read->version, lock.read->now,
               until.time_since_epoch().count());
  }
  for (const rows::Notice& notice : ran.notices) {
    if (notice.wake.empty() || notice.wake == channel_) continue;
    // Several locks of one step are written all or none: any of their names will do.
    writes.notifications.push_back(
        {ran.locks.begin()->first, notice.wake, payload_of(notice.id, notice.granted)});
  }
}

// Steps whose locks have nothing to do with each other go together, so that one commit serves them
// all: those that come while one statement is under way go with the next one.
void Engine::write(const StepPtr& step, const std::shared_ptr<Ran>& ran) {
  writes_.push_back({step, ran});
  send_writes();
}

void Engine::send_writes() {
  if (writes_sent_ || writes_.empty()) return;
  writes_sent_ = true;
  std::vector<Written> steps;
  const std::size_t most = dialect_->most_apart();
  while (!writes_.empty() && steps.size() < most) {
    const bool together = may_go_together(*writes_.front().step);
    if (!together && !steps.empty()) break;
    steps.push_back(std::move(writes_.front()));
    writes_.pop_front();
    if (!together) break;
  }
  if (steps.size() > 1) return send_apart(std::move(steps));
  Writes writes;
  add_writes(*steps.front().ran, writes);
  Statement statement{dialect_->write(writes), deadline_of(*steps.front().step), {}};
  statement.done = [this, written = std::move(steps.front())](const Answer& answer) {
    writes_sent_ = false;
    const bool done = answer.fate == Fate::kDone && answer.rows->size() == 1 &&
                      answer.rows->number(0, 0) > 0;
    done ? answer_all(written.step, *written.ran)
         : on_not_written(written, answer, /*together=*/false);
    send_writes();
  };
  link_.send(std::move(statement));
}

// One that is nearly late would take its deadline to the others.
bool Engine::may_go_together(const Step& step) const {
  return !step.by_itself && step.names.size() == 1 &&
         deadline_of(step) > BootClock::now() + std::chrono::seconds(1);
}

void Engine::send_apart(std::vector<Written> steps) {
  Writes writes;
  writes.apart = true;
  BootInstant deadline = BootInstant::max();
  for (const Written& written : steps) {
    add_writes(*written.ran, writes);
    deadline = std::min(deadline, deadline_of(*written.step));
  }
  Statement statement{dialect_->write(writes), deadline, {}};
  statement.done = [this, steps = std::move(steps)](const Answer& answer) {
    writes_sent_ = false;
    std::unordered_set<std::string> names;
    for (int row = 0; answer.fate == Fate::kDone && row < answer.rows->size(); ++row) {
      names.insert(answer.rows->bytes(row, 0));
    }
    for (const Written& written : steps) {
      names.contains(written.step->names.front())
          ? answer_all(written.step, *written.ran)
          : on_not_written(written, answer, /*together=*/true);
    }
    send_writes();
  };
  link_.send(std::move(statement));
}

// `together`: with others, so that the reason may be one of theirs.
void Engine::on_not_written(const Written& written, const Answer& answer, bool together) {
  const StepPtr& step = written.step;
  if (answer.fate == Fate::kUnknown) {
    for (const CommandPtr& command : step->commands) command->written = true;
  }
  if (answer.fate == Fate::kDone) return again(step, nullptr);
  if (together && answer.fate == Fate::kRefused) {
    step->by_itself = true;
    return again(step, nullptr);
  }
  again(step, &answer);
}

void Engine::note_crowds(const Step& step, const Ran& ran) {
  if (crowded_.size() > kMostCrowded) crowded_.clear();
  for (std::size_t at = 0; at < step.commands.size(); ++at) {
    for (std::size_t part = 0; part < ran.answers[at].size(); ++part) {
      const std::string& name = step.commands[at]->parts[part].name;
      const auto& after = ran.answers[at][part].after;
      if (after && after->tickets.size() > 1) {
        crowded_.insert(name);
      } else {
        crowded_.erase(name);
      }
    }
  }
}

void Engine::answer_all(const StepPtr& step, const Ran& ran) {
  note_crowds(*step, ran);
  for (std::size_t at = 0; at < step->commands.size(); ++at) {
    const CommandPtr& command = step->commands[at];
    settle(*command, ran.answers[at]);
    if (take(command)) command->answer(ran.answers[at]);
  }
  for (const rows::Notice& notice : ran.notices) {
    if (notice.wake == channel_) push(notice.id, notice.granted);
  }
  finish(step->names);
}

// `lost`: nullptr: somebody was faster.
void Engine::again(const StepPtr& step, const Answer* lost) {
  const BootInstant now = BootClock::now();
  // A step has the deadline of the first request that must answer; the others have time left.
  const bool hopeless =
      lost != nullptr && ((lost->fate == Fate::kNotSent && !lost->late) ||
                          (lost->fate == Fate::kRefused &&
                           dialect_->failure_of(*lost) != Failure::kChangedNothing));
  const Answer race{Fate::kRefused, nullptr, {}, "others changed the lock all the time"};
  std::erase_if(step->commands, [&](const CommandPtr& command) {
    const bool go_on = now < command->deadline &&
                       (!hopeless || (command->written && lost->fate == Fate::kNotSent));
    if (!go_on) fail(command, lost != nullptr ? *lost : race);
    return !go_on;
  });
  if (step->commands.empty()) return finish(step->names);
  ++step->tries;
  // A release that lost a race to somebody who joins the queue: the others wait for it.
  const bool at_once = lost == nullptr && step->tries <= kTriesAtOnce &&
                       std::any_of(step->commands.begin(), step->commands.end(),
                                   [](const CommandPtr& command) { return command->ends; });
  if (at_once) return read(step);
  auto pause = jitter_.after_race(step->tries);
  if (lost != nullptr && lost->fate != Fate::kRefused) pause += milliseconds(20);
  link_.at(now + pause, [this, step] { read(step); });
}

void Engine::fail(const CommandPtr& command, const Answer& why) {
  if (command->written || why.fate == Fate::kUnknown) {
    // Whoever asked will cancel or release it: that leaves the tombstone.
    for (const Command::Part& part : command->parts) {
      if (command->acquires && command->written) late_.add(part.id);
    }
  }
  if (!take(command)) return;
  if (command->written) {
    command->fail({Errc::kOutcomeUnknown, dialect_->address() + ": " + why.message +
                                              "; whether the request was carried out is not "
                                              "known"});
    return;
  }
  const Error error = error_of(why);
  command->fail(error.code() == Errc::kOutcomeUnknown ? Error(Errc::kUnavailable, error.message())
                                                      : error);
}

// A request of an acquisition that was sent more than once may arrive after its end.
void Engine::settle(const Command& command, const std::vector<Applied>& applied) {
  if (!command.acquires || !command.written) return;
  for (std::size_t at = 0; at < command.parts.size(); ++at) {
    const Command::Part& part = command.parts[at];
    late_.add(part.id);
    const bool stands = at < applied.size() && applied.size() == command.parts.size() &&
                        (applied[at].reply.outcome == machine::Outcome::kHeld ||
                         applied[at].reply.outcome == machine::Outcome::kWaiting);
    if (!stands) refuse_later(part.name, part.id);
  }
}

void Engine::refuse_later(const std::string& name, AcquisitionId id) {
  auto command = std::make_shared<Command>();
  command->deadline = BootClock::now() + std::chrono::seconds(30);
  command->parts.push_back({name, id, [name, id](Duration tombstone) -> machine::Action {
                              return machine::Cancel{name, id, tombstone};
                            }});
  command->answer = [](const std::vector<Applied>&) {};
  command->fail = [](const Error&) {};
  submit(std::move(command));
}

Error Engine::error_of(const Answer& answer) const { return sql::error_of(*dialect_, answer); }

Error error_of(const Dialect& dialect, const Answer& answer) {
  const std::string what = dialect.address() + ": " + answer.message;
  if (answer.fate == Fate::kUnknown) {
    return {Errc::kOutcomeUnknown, what + "; whether the request was carried out is not known"};
  }
  switch (dialect.failure_of(answer)) {
    case Failure::kPermission:
      if (answer.fate == Fate::kNotSent) return {Errc::kPermissionDenied, what};
      return {Errc::kPermissionDenied,
              what + ": see docs/stores/" + std::string(dialect.store()) + ".md"};
    case Failure::kNoTables:
      return {Errc::kCorruptState, what + ": a table of the store is missing in " +
                                       dialect.tables() + ": run 'holdfast store init'"};
    case Failure::kForeignTables:
      return {Errc::kCorruptState, what + ": the tables in " + dialect.tables() +
                                       " are not those of Holdfast: name another place for the "
                                       "tables in the URL"};
    case Failure::kSettings: return {Errc::kInvalidArgument, what};
    case Failure::kReadOnly:
      // Where no connection was made, the reason says so already.
      return {Errc::kUnavailable,
              what + (answer.fate == Fate::kNotSent ? "" : ": this server only reads") +
                  ": connect to the primary"};
    case Failure::kOther:
    case Failure::kChangedNothing: break;
  }
  return {Errc::kUnavailable, answer.code.empty() ? what : what + " (" + answer.code + ")"};
}

Error Engine::closed_error() const {
  return {Errc::kClosed, "the " + std::string(dialect_->store()) + " store was closed"};
}

}  // namespace holdfast::sql
