#include "src/stores/postgres/engine.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <variant>

#include "src/base/printable.h"
#include "src/base/random.h"
#include "src/port/outcome.h"
#include "src/rows/owner_codec.h"

namespace holdfast::stores::postgres {
namespace {

using base::BootClock;
using base::BootInstant;
using machine::AcquisitionId;
using machine::Duration;
using machine::Instant;
using machine::LockMachine;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::size_t kMostJoined = 64;
constexpr std::size_t kMostFast = 256;
// How long after a lost connection a statement of it may still be executed.
constexpr Duration kTombstone = std::chrono::minutes(5);
constexpr milliseconds kExpiryTick{100};
constexpr milliseconds kFirstPoll{20};
constexpr milliseconds kLongestPoll{500};

// Deadlocks, serialization failures, lock timeouts, a full server and forgotten plans changed
// nothing.
bool changed_nothing(const std::string& state) {
  for (const char* one : {"40001", "40P01", "55P03", "22012", "26000", "42P05", "0A000"}) {
    if (state == one) return true;
  }
  return false;
}

std::size_t hash_of(const AcquisitionId& id) { return static_cast<std::size_t>(id.high ^ id.low); }

std::string payload_of(const AcquisitionId& id,
                       const std::optional<port::AcquisitionState>& state) {
  std::string text = base::to_hex(id.high, id.low);
  if (!state) return text;
  return text + ' ' + std::to_string(state->token.counter) + ' ' + std::to_string(state->seq) +
         ' ' + std::to_string(state->lease.count());
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

Engine::Engine(const PostgresAddress& address, const port::StoreContext& context, Tuning tuning)
    : loop_(context.loop),
      listener_(context.listener),
      statements_(address.schema),
      display_(address.display()),
      channel_("holdfast_" + base::to_hex(base::random_128().high, 0).substr(0, 16)),
      try_limit_(address.connect_timeout),
      tuning_(std::move(tuning)),
      waiting_(0, &hash_of),
      random_(static_cast<std::minstd_rand::result_type>(base::random_128().low)),
      link_(address, "holdfast-pg", /*keep=*/true,
            {[this] { connected(); }, [this](const std::string& why) { lost(why); }, {}}) {
  link_.at(BootClock::now() + kExpiryTick, [this] { expire_waiting(); });
  link_.at(BootClock::now() + poll_, [this] { poll_waiting(); });
}

void Engine::connected() {
  if (was_connected_) tell(display_ + ": connected again");
  was_connected_ = true;
}

void Engine::lost(const std::string& why) {
  tell(display_ +
       ": the connection is lost; reconnecting. Waiters keep waiting, leases last until their "
       "deadlines: " +
       why);
}

void Engine::tell(std::string line) {
  loop_->post([listener = listener_, line = std::move(line)] { listener->on_alarm(line); });
}

Engine::~Engine() { close({}); }

Param Engine::now() const {
  if (!tuning_.now) return std::nullopt;
  return std::to_string(tuning_.now().time_since_epoch().count());
}

void Engine::submit(CommandPtr command) {
  bool closed = false;
  {
    const base::LocalLock lock(mutex_);
    closed = closed_;
    if (!closed) {
      live_.insert(command);
      if (command->ends) ++ends_under_way_;
    }
  }
  if (closed) return command->fail(Error(Errc::kClosed, "the postgres store was closed"));
  link_.post([this, command = std::move(command)] { enqueue(command); });
}

void Engine::ask(Link& link, std::string text, Params params, std::shared_ptr<Question> question) {
  bool closed = false;
  {
    const base::LocalLock lock(mutex_);
    closed = closed_;
    if (!closed) live_.insert(question);
  }
  if (closed) return question->fail(Error(Errc::kClosed, "the postgres store was closed"));
  link.post([this, &link, text = std::move(text), params = std::move(params), question]() mutable {
    Statement statement{std::move(text), std::move(params), question->deadline, {}};
    statement.done = [this, question](const Answer& answer) {
      if (!take(question)) return;
      if (answer.fate == Fate::kDone) return question->answer(*answer.rows);
      question->fail(error_of(answer));
    };
    link.send(std::move(statement));
  });
}

void Engine::ended(AcquisitionId id) {
  link_.post([this, id] {
    ended_.add(id);
    waits_no_more(id);
  });
}

bool Engine::take(const std::shared_ptr<Operation>& operation) {
  const base::LocalLock lock(mutex_);
  if (live_.erase(operation) == 0) return false;
  const auto* command = dynamic_cast<const Command*>(operation.get());
  if (command != nullptr && command->ends && --ends_under_way_ == 0) ended_one_.notify_all();
  return true;
}

void Engine::close(BootInstant deadline) {
  {
    const base::LocalLock lock(mutex_);
    if (closed_) return;
    for (auto now = BootClock::now(); ends_under_way_ > 0 && now < deadline;
         now = BootClock::now()) {
      ended_one_.wait_for(mutex_, deadline - now);
    }
    closed_ = true;
  }
  link_.close();
  std::unordered_set<std::shared_ptr<Operation>> left;
  {
    const base::LocalLock lock(mutex_);
    left.swap(live_);
  }
  for (const auto& operation : left) {
    operation->fail(Error(Errc::kClosed, "the postgres store was closed"));
  }
}

// --- Order

void Engine::enqueue(const CommandPtr& command) {
  for (const Command::Part& part : command->parts) queues_[part.name].waiting.push_back(command);
  start_next(command->parts.front().name);
}

// At the head of the queue of each of its locks.
bool Engine::ready(const Command& command) {
  return std::all_of(command.parts.begin(), command.parts.end(), [&](const Command::Part& part) {
    const Queue& queue = queues_[part.name];
    return !queue.busy && !queue.waiting.empty() && queue.waiting.front().get() == &command;
  });
}

void Engine::start_next(const std::string& name) {
  const auto found = queues_.find(name);
  if (found == queues_.end() || found->second.busy) return;
  Queue& queue = found->second;
  if (queue.waiting.empty()) {
    queues_.erase(found);
    return;
  }
  if (!ready(*queue.waiting.front())) return;
  std::vector<CommandPtr> commands = {queue.waiting.front()};
  for (const Command::Part& part : commands.front()->parts) {
    queues_[part.name].waiting.pop_front();
    queues_[part.name].busy = true;
  }
  if (!commands.front()->all_or_nothing) join_waiting(queue, commands);
  begin(std::move(commands));
}

// Those that came meanwhile go along.
void Engine::join_waiting(Queue& queue, std::vector<CommandPtr>& commands) {
  while (!queue.waiting.empty() && commands.size() < kMostJoined &&
         !queue.waiting.front()->all_or_nothing) {
    commands.push_back(std::move(queue.waiting.front()));
    queue.waiting.pop_front();
  }
}

void Engine::begin(std::vector<CommandPtr> commands) {
  const Command& first = *commands.front();
  const bool refused = first.acquires && ended_.contains(first.parts.front().id);
  if (commands.size() == 1 && first.fast && tuning_.fast_path && !refused &&
      !late_.contains(first.parts.front().id)) {
    fast_.push_back(commands.front());
    return send_fast();
  }
  auto step = std::make_shared<Step>();
  for (const Command::Part& part : first.parts) step->names.push_back(part.name);
  std::sort(step->names.begin(), step->names.end());
  step->commands = std::move(commands);
  read(step);
}

void Engine::finish(const std::vector<std::string>& names) {
  for (const std::string& name : names) queues_[name].busy = false;
  for (const std::string& name : names) start_next(name);
}

// Those that wait behind a step that takes long.
void Engine::expire_waiting() {
  const BootInstant now = BootClock::now();
  std::vector<CommandPtr> late;
  for (auto& [name, queue] : queues_) {
    for (const CommandPtr& command : queue.waiting) {
      if (command->deadline <= now) late.push_back(command);
    }
  }
  for (const CommandPtr& command : late) {
    for (const Command::Part& part : command->parts)
      std::erase(queues_[part.name].waiting, command);
    fail(command, {Fate::kNotSent, std::nullopt, {}, "no answer in time"});
    for (const Command::Part& part : command->parts) start_next(part.name);
  }
  link_.at(now + kExpiryTick, [this] { expire_waiting(); });
}

// --- The fast form

// One statement at a time: what comes meanwhile goes as one, and is committed as one.
void Engine::send_fast() {
  if (fast_sent_ || fast_.empty()) return;
  fast_sent_ = true;
  if (fast_.size() == 1) {
    const CommandPtr command = std::move(fast_.front());
    fast_.clear();
    return send_one(command);
  }
  std::map<std::string, CommandPtr> commands;
  const std::size_t count = std::min(fast_.size(), kMostFast);
  for (std::size_t at = 0; at < count; ++at) {
    commands.emplace(fast_[at]->parts.front().name, std::move(fast_[at]));
  }
  fast_.erase(fast_.begin(), fast_.begin() + static_cast<std::ptrdiff_t>(count));
  send_many(std::move(commands));
}

void Engine::send_one(const CommandPtr& command) {
  Statement statement{command->fast->grants ? statements_.grant : statements_.release,
                      command->fast->params,
                      std::min(command->deadline, BootClock::now() + try_limit_),
                      {}};
  statement.done = [this, command](const Answer& answer) {
    fast_sent_ = false;
    if (answer.fate == Fate::kDone && answer.rows->size() == 1) {
      if (take(command)) command->fast->answer(answer.rows->number(0, 0));
      finish({command->parts.front().name});
    } else {
      leave_to_machine(command, answer);
    }
    send_fast();
  };
  link_.send(std::move(statement));
}

void Engine::send_many(std::map<std::string, CommandPtr> commands) {
  std::array<Array, 9> columns;  // Without the clock's, which is of all.
  BootInstant deadline = BootClock::now() + try_limit_;
  for (const auto& [name, command] : commands) {
    const Params& params = command->fast->params;
    for (std::size_t at = 0; at < columns.size(); ++at) {
      const std::size_t place = at == 0 ? 0 : at + 1;
      columns[at].add_param(place < params.size() ? params[place] : Param());
    }
    deadline = std::min(deadline, command->deadline);
  }
  Statement statement{statements_.many, {now()}, deadline, {}};
  for (const Array& column : columns) statement.params.push_back(column.param());
  statement.done = [this, commands = std::move(commands)](const Answer& answer) mutable {
    fast_sent_ = false;
    for (int row = 0; answer.fate == Fate::kDone && row < answer.rows->size(); ++row) {
      const auto found = commands.find(answer.rows->bytes(row, 0));
      if (found == commands.end()) continue;
      const CommandPtr command = std::move(found->second);
      commands.erase(found);
      if (take(command)) command->fast->answer(answer.rows->number(row, 1));
      finish({command->parts.front().name});
    }
    for (const auto& [name, command] : commands) leave_to_machine(command, answer);
    send_fast();
  };
  link_.send(std::move(statement));
}

// It was not carried out as it is, or its fate is not known.
void Engine::leave_to_machine(const CommandPtr& command, const Answer& answer) {
  auto step = std::make_shared<Step>();
  step->names = {command->parts.front().name};
  step->commands = {command};
  if (answer.fate != Fate::kDone) {
    if (answer.fate == Fate::kUnknown) command->written = true;
    return again(step, &answer);
  }
  join_waiting(queues_[step->names.front()], step->commands);
  read(step);
}

// --- Steps

BootInstant Engine::deadline_of(const Step& step) const {
  BootInstant least = BootClock::now() + try_limit_;  // A connection that is dead is replaced.
  for (const CommandPtr& command : step.commands) least = std::min(least, command->deadline);
  return least;
}

void Engine::read(const StepPtr& step) {
  Array names;
  for (const std::string& name : step->names) names.add_bytes(name);
  Statement statement{statements_.read, {now(), names.param()}, deadline_of(*step), {}};
  statement.done = [this, step](Answer answer) { on_read(step, std::move(answer)); };
  link_.send(std::move(statement));
}

void Engine::on_read(const StepPtr& step, Answer answer) {
  if (answer.fate != Fate::kDone) return again(step, &answer);
  auto ran = std::make_shared<Ran>();
  auto locks = read_locks(*answer.rows, display_);
  if (locks) ran->read = *std::move(locks);
  if (!locks || !run(step, ran->read, *ran)) {
    const Error why =
        locks ? Error(Errc::kCorruptState,
                      display_ + ": the tickets of lock '" + base::printable(step->names.front()) +
                          "' contradict each other: were they changed by hand?")
              : locks.error();
    for (const CommandPtr& command : step->commands) {
      if (take(command)) command->fail(why);
    }
    return finish(step->names);
  }
  if (!finish_if_unchanged(step, *ran)) write(step, ran);
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

Writes Engine::writes_of(const Ran& ran) const {
  Writes writes;
  for (const auto& [name, lock] : ran.locks) {
    const auto after = lock.machine->inspect(name);
    const Instant due = lock.machine->next_event().value_or(Instant::max());
    const rows::Outcome outcome{lock.at.time_since_epoch().count(), due.time_since_epoch().count(),
                                after ? &*after : nullptr, &lock.effects};
    const rows::Changes changes = rows::changes_of(lock.read->stored, outcome);
    writes.add(changes, lock.read->version, lock.read->now);
    if (changes.value) writes.notify(value_channel(name), "value");
    static const std::vector<machine::TombstoneImage> none;
    const auto& stones = after ? after->tombstones : none;
    Instant until{};
    for (const auto& stone : stones) until = std::max(until, stone.until);
    writes.keep_refusing(until.time_since_epoch().count());
    if (stones != lock.read->stored.image.tombstones) writes.set_tombstones(name, stones);
  }
  for (const rows::Notice& notice : ran.notices) {
    if (notice.wake.empty() || notice.wake == channel_) continue;
    writes.notify(notice.wake, payload_of(notice.id, notice.granted));
  }
  return writes;
}

void Engine::write(const StepPtr& step, const std::shared_ptr<Ran>& ran) {
  const Writes writes = writes_of(*ran);
  std::string& text = write_texts_[writes.shape()];
  if (text.empty()) text = writes.text(statements_);
  Statement statement{text, writes.params(), deadline_of(*step), {}};
  statement.done = [this, step, ran](const Answer& answer) {
    if (answer.fate == Fate::kUnknown) {
      for (const CommandPtr& command : step->commands) command->written = true;
    }
    if (answer.fate != Fate::kDone) return again(step, &answer);
    if (answer.rows->size() != 1 || answer.rows->number(0, 0) == 0) return again(step, nullptr);
    answer_all(step, *ran);
  };
  link_.send(std::move(statement));
}

void Engine::answer_all(const StepPtr& step, const Ran& ran) {
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
  const bool hopeless =
      lost != nullptr && (lost->fate == Fate::kNotSent ||
                          (lost->fate == Fate::kRefused && !changed_nothing(lost->state)));
  const Answer race{Fate::kRefused, std::nullopt, {}, "others changed the lock all the time"};
  std::erase_if(step->commands, [&](const CommandPtr& command) {
    const bool go_on = now < command->deadline &&
                       (!hopeless || (command->written && lost->fate == Fate::kNotSent));
    if (!go_on) fail(command, lost != nullptr ? *lost : race);
    return !go_on;
  });
  if (step->commands.empty()) return finish(step->names);
  ++step->tries;
  auto pause = random_pause(step->tries);
  if (lost != nullptr && lost->fate != Fate::kRefused) pause += milliseconds(20);
  link_.at(now + pause, [this, step] { read(step); });
}

microseconds Engine::random_pause(int tries) {
  const int most = 500 << std::min(tries, 6);
  return microseconds(std::uniform_int_distribution<int>(0, most)(random_));
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
    command->fail({Errc::kOutcomeUnknown, display_ + ": " + why.message +
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

Error Engine::error_of(const Answer& answer) const {
  const std::string what = display_ + ": " + answer.message;
  if (answer.fate == Fate::kUnknown) {
    return {Errc::kOutcomeUnknown, what + "; whether the request was carried out is not known"};
  }
  if (answer.fate == Fate::kNotSent) {
    const bool refused =
        what.find("authentication") != what.npos || what.find("permission denied") != what.npos ||
        what.find("FATAL:  role ") != what.npos || what.find("certificate") != what.npos;
    return {refused ? Errc::kPermissionDenied : Errc::kUnavailable, what};
  }
  if (answer.state == "42501")
    return {Errc::kPermissionDenied, what + ": see docs/stores/postgres.md"};
  if (answer.state == "42P01" || answer.state == "3F000") {
    return {Errc::kCorruptState, what + ": the store's tables are not there: connect again"};
  }
  if (answer.state == "25006") {
    return {Errc::kUnavailable, what + ": this server only reads: connect to the primary"};
  }
  return {Errc::kUnavailable, what + " (" + answer.state + ")"};
}

// --- Telling those who wait

std::string Engine::value_channel(std::string_view name) const {
  std::uint64_t sum = 0xcbf29ce484222325;  // FNV-1a: the same in every client.
  for (const char c : statements_.of("@") + std::string(name)) {
    sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return "holdfast_value_" + base::to_hex(sum, 0).substr(0, 16);
}

void Engine::push(AcquisitionId id, std::optional<port::AcquisitionState> granted) {
  if (granted) waits_no_more(id);
  port::Push push;
  push.id = id;
  push.kind = granted ? port::Push::Kind::kGranted : port::Push::Kind::kHint;
  if (granted) push.state = *granted;
  loop_->post([listener = listener_, push] { listener->on_push(push); });
}

void Engine::set_listening(bool on) {
  listening_ = on;
  link_.prepare_statements(on);
}

void Engine::waits(AcquisitionId id, const std::string& name) {
  waiting_[id] = name;
  poll_ = kFirstPoll;
}

void Engine::waits_no_more(AcquisitionId id) { waiting_.erase(id); }

// Behind a pooler nothing tells of a grant.
void Engine::poll_waiting() {
  const auto next = [this] {
    poll_ = std::min(kLongestPoll, poll_ * 3 / 2);
    link_.at(BootClock::now() + poll_, [this] { poll_waiting(); });
  };
  if (listening_ || waiting_.empty()) return next();
  Array names;
  Array ids;
  for (const auto& [id, name] : waiting_) {
    names.add_bytes(name);
    ids.add_id(id);
  }
  Statement statement{statements_.look,
                      {names.param(), ids.param()},
                      BootClock::now() + std::chrono::seconds(5),
                      {}};
  statement.done = [this, next](const Answer& answer) {
    for (int row = 0; answer.fate == Fate::kDone && row < answer.rows->size(); ++row) {
      port::AcquisitionState state;
      state.status = port::AcquisitionStatus::kHeld;
      state.token = {0, static_cast<std::uint64_t>(answer.rows->number(row, 1))};
      state.seq = static_cast<std::uint64_t>(answer.rows->number(row, 2));
      state.lease = Duration(answer.rows->number(row, 3));
      push(answer.rows->id(row, 0), state);
    }
    next();
  };
  link_.send(std::move(statement));
}

}  // namespace holdfast::stores::postgres
