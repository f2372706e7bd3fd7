#include "src/sql/engine.h"

#include <algorithm>

#include "src/base/random.h"

namespace holdfast::sql {
namespace {

using base::BootClock;
using base::BootInstant;
using machine::AcquisitionId;
using std::chrono::milliseconds;

constexpr std::size_t kMostJoined = 64;
constexpr std::size_t kMostFast = 256;
constexpr std::size_t kMostRows = 16384;
constexpr std::chrono::microseconds kLongestLinger{500};
constexpr milliseconds kExpiryTick{100};
constexpr milliseconds kAskAgain{5};

std::size_t hash_of(const AcquisitionId& id) { return static_cast<std::size_t>(id.high ^ id.low); }

}  // namespace

Engine::Engine(std::unique_ptr<Dialect> dialect, Link::Settings link,
               const port::StoreContext& context, Tuning tuning)
    : loop_(context.loop),
      listener_(context.listener),
      dialect_(std::move(dialect)),
      channel_("holdfast_" + base::to_hex(base::random_128().high, 0).substr(0, 16)),
      tuning_(std::move(tuning)),
      waiting_(0, &hash_of),
      link_(std::move(link),
            {[this] { connected(); }, [this](const std::string& why) { lost(why); }, {}}) {
  link_.at(BootClock::now() + kExpiryTick, [this] { expire_waiting(); });
}

void Engine::connected() {
  if (was_connected_) tell(dialect_->address() + ": connected again");
  was_connected_ = true;
}

void Engine::lost(const std::string& why) {
  tell(dialect_->address() +
       ": the connection is lost; reconnecting. Waiters keep waiting, leases last until their "
       "deadlines: " +
       why);
}

void Engine::tell(std::string line) {
  loop_->post([listener = listener_, line = std::move(line)] { listener->on_alarm(line); });
}

Engine::~Engine() { close({}); }

Now Engine::now() const {
  if (!tuning_.now) return std::nullopt;
  return tuning_.now().time_since_epoch().count();
}

bool Engine::admit(const CommandPtr& command) {
  const base::LocalLock lock(mutex_);
  if (closed_) return false;
  live_.insert(command);
  if (command->ends) ++ends_under_way_;
  return true;
}

void Engine::submit(CommandPtr command) {
  if (!admit(command)) return command->fail(closed_error());
  link_.post([this, command = std::move(command)] { enqueue(command); });
}

bool Engine::submit_and_read(const CommandPtr& command, const std::atomic<bool>& done) {
  if (!admit(command)) return false;
  if (link_.post_and_read([this, &command] { enqueue(command); }, done)) return true;
  return !take(command);  // Closed meanwhile: it was answered.
}

void Engine::ask(Link& link, Request request, std::shared_ptr<Question> question) {
  bool closed = false;
  {
    const base::LocalLock lock(mutex_);
    closed = closed_;
    if (!closed) live_.insert(question);
  }
  if (closed) return question->fail(closed_error());
  question->request = std::move(request);
  link.post([this, &link, question] { put(link, question); });
}

// A statement that changed nothing, because a plan was forgotten or somebody cancelled it, is no
// answer to a question either.
void Engine::put(Link& link, const std::shared_ptr<Question>& question) {
  Statement statement{question->request, question->deadline, {}};
  statement.done = [this, &link, question](const Answer& answer) {
    const BootInstant next = BootClock::now() + kAskAgain;
    const bool again = answer.fate == Fate::kRefused && next < question->deadline &&
                       dialect_->failure_of(answer) == Failure::kChangedNothing;
    if (again) return link.at(next, [this, &link, question] { put(link, question); });
    if (!take(question)) return;
    if (answer.fate == Fate::kDone) return question->answer(answer.rows);
    question->fail(error_of(answer));
  };
  link.send(std::move(statement));
}

void Engine::post(std::shared_ptr<Task> task, BootInstant when) {
  bool closed = false;
  {
    const base::LocalLock lock(mutex_);
    closed = closed_;
    if (!closed) live_.insert(task);
  }
  if (closed) return task->fail(closed_error());
  link_.post([this, when, task = std::move(task)] {
    const auto run = [this, task] {
      if (take(task)) task->run();
    };
    when == BootInstant() ? run() : link_.at(when, run);
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
    operation->fail(closed_error());
  }
}

// --- Order

void Engine::enqueue(const CommandPtr& command) {
  if (command->ends) {
    // No ticket will be made for this id by a request that comes later.
    ended_.add(command->parts.front().id);
    waits_no_more(command->parts.front().id);
  }
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

// Commands that came meanwhile go along.
void Engine::join_waiting(Queue& queue, std::vector<CommandPtr>& commands) {
  while (!queue.waiting.empty() && commands.size() < kMostJoined &&
         !queue.waiting.front()->all_or_nothing) {
    commands.push_back(std::move(queue.waiting.front()));
    queue.waiting.pop_front();
  }
}

void Engine::begin(std::vector<CommandPtr> commands) {
  const Command& first = *commands.front();
  const std::string& name = first.parts.front().name;
  const bool refused = first.acquires && ended_.contains(first.parts.front().id);
  if (commands.size() == 1 && first.fast && tuning_.fast_path && !refused &&
      !late_.contains(first.parts.front().id)) {
    if (!first.fast->others_wait && !crowded_.contains(name)) {
      fast_.push_back(commands.front());
      return send_fast();
    }
    if (!first.fast->command.grants && hand_on(commands.front())) return;
  }
  if (commands.size() == 1 && give_up(commands.front())) return;
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

// Ends commands whose deadline passes while they wait behind a long step.
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
    fail(command, {Fate::kNotSent, nullptr, {}, "no answer in time"});
    for (const Command::Part& part : command->parts) start_next(part.name);
  }
  link_.at(now + kExpiryTick, [this] { expire_waiting(); });
}

// --- The fast form

// One statement at a time: what comes meanwhile goes as one, and is committed as one.
// Callers that were answered together ask again together, a little later: a batch that waits for
// them needs one commit where two halves would need two.
void Engine::expect_again(std::size_t answered, BootInstant sent) {
  const BootInstant now = BootClock::now();
  expected_ = fast_.size() + answered;
  expected_by_ = now + std::min<BootClock::duration>((now - sent) / 4, kLongestLinger);
}

void Engine::send_fast() {
  if (fast_sent_ || fast_.empty()) return;
  if (fast_.size() < expected_ && BootClock::now() < expected_by_) {
    if (!lingers_)
      link_.at(expected_by_, [this] {
        lingers_ = false;
        send_fast();
      });
    lingers_ = true;
    return;
  }
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
  const std::string& name = command->parts.front().name;
  command->fast->command.has_row = have_rows_.contains(name);
  Statement statement{dialect_->fast(command->fast->command, now()), command->deadline, {}};
  statement.done = [this, command, sent = BootClock::now()](const Answer& answer) {
    fast_sent_ = false;
    expect_again(1, sent);
    if (answer.fate == Fate::kDone && answer.rows->size() == 1) {
      note_row(command->parts.front().name);
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
  std::vector<const FastCommand*> fast;
  BootInstant deadline = BootInstant::max();
  for (const auto& [name, command] : commands) {
    fast.push_back(&command->fast->command);
    deadline = std::min(deadline, command->deadline);
  }
  Statement statement{dialect_->fast_many(fast, now()), deadline, {}};
  statement.done = [this, commands = std::move(commands),
                    sent = BootClock::now()](const Answer& answer) mutable {
    fast_sent_ = false;
    expect_again(commands.size(), sent);
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

// One at a time: the releases that come meanwhile become steps, which are written together. False:
// it is to become one.
bool Engine::hand_on(const CommandPtr& command) {
  if (hand_on_sent_) return false;
  auto request = dialect_->hand_on(command->fast->command, channel_, now());
  if (!request) return false;
  hand_on_sent_ = true;
  command->fast->others_wait = true;
  Statement statement{*std::move(request), command->deadline, {}};
  statement.done = [this, command](const Answer& answer) {
    hand_on_sent_ = false;
    if (answer.fate != Fate::kDone || answer.rows->size() != 1) {
      return leave_to_machine(command, answer);
    }
    on_handed_on(command, *answer.rows);
  };
  link_.send(std::move(statement));
  return true;
}

void Engine::on_handed_on(const CommandPtr& command, const Rows& rows) {
  const std::string name = command->parts.front().name;
  if (rows.number(0, Dialect::kLeft) == 0) crowded_.erase(name);
  if (take(command)) command->fast->answer(0);
  if (!rows.is_null(0, Dialect::kNext) && rows.text(0, Dialect::kNextWake) == channel_) {
    push(rows.id(0, Dialect::kNext), held_state(rows, 0, Dialect::kNextToken));
  }
  finish({name});
}

void Engine::note_row(const std::string& name) {
  if (have_rows_.size() >= kMostRows) have_rows_.clear();
  have_rows_.insert(name);
}

// False: the command is to be carried out in another way.
bool Engine::give_up(const CommandPtr& command) {
  if (!command->not_fast) return false;
  if (take(command)) command->not_fast();
  finish({command->parts.front().name});
  return true;
}

// It was not carried out as it is, or its fate is not known.
void Engine::leave_to_machine(const CommandPtr& command, const Answer& answer) {
  // A release that was not: somebody has begun to wait, most likely.
  Command::Fast& fast = *command->fast;
  const bool came_later = answer.fate == Fate::kDone && !fast.command.grants && !fast.others_wait;
  if (came_later && hand_on(command)) return;
  if (answer.fate == Fate::kDone && command->not_fast) {
    // It comes again: the fast form would be in vain once more.
    if (crowded_.size() < kMostRows) crowded_.insert(command->parts.front().name);
    give_up(command);
    return;
  }
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

}  // namespace holdfast::sql
