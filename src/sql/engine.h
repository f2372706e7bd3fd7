// The steps of a client: which commands run when, on which lock, and what becomes of them when a
// race, a connection or an answer is lost.
//
// Commands about one lock run in the order in which they were submitted, one step at a time; those
// that wait meanwhile go into the next step together. A command with a fast form is tried as that
// first, where it is alone; some servers have one also for a release beside waiters. A step reads
// the lock with one statement, runs the machine here, and writes with another one, which does
// nothing when somebody was faster: then it reads again.
//
// Guarantee: each operation ends exactly once: with an answer, by `fail`, or with kClosed.
// kUnavailable only when nothing of it was applied or can be. A command that makes a ticket and
// whose request may still arrive is followed by a tombstone for its id, at the latest with the
// release.
//
// Thread-safety: submit(), submit_and_read() and ask() from any thread; the callbacks run on the
// link's.
// Ownership: the listener and the loop outlive it. Time: deadlines on boot time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "src/base/jitter.h"
#include "src/base/local_mutex.h"
#include "src/machine/command.h"
#include "src/machine/lock_machine.h"
#include "src/port/registry.h"
#include "src/port/store.h"
#include "src/rows/ended_ids.h"
#include "src/rows/lock_rows.h"
#include "src/sql/dialect.h"
#include "src/sql/link.h"
#include "src/sql/read_lock.h"
#include "src/sql/writes.h"

namespace holdfast::sql {

// The machine's answer to one command.
struct Applied {
  machine::Reply reply;
  std::optional<machine::LockImage> after;
  machine::Instant at;
  const ReadLock* before = nullptr;
};

struct Operation {
  virtual ~Operation() = default;
  base::BootInstant deadline{};
  std::function<void(const Error&)> fail;
};

// A statement that only reads, or whose repetition does no harm.
struct Question : Operation {
  Request request;
  std::function<void(const RowsPtr&)> answer;
};

struct Task : Operation {
  std::function<void()> run;
};

struct Command : Operation {
  // Each is about one lock; several only where `all_or_nothing` is set.
  struct Part {
    std::string name;
    machine::AcquisitionId id{};
    // `tombstone`: how long the id is to be refused, for the actions that end one.
    std::function<machine::Action(machine::Duration tombstone)> action;
  };
  struct Fast {
    FastCommand command;
    std::function<void(std::int64_t token)> answer;
    bool others_wait = false;  // As far as is known.
  };

  std::vector<Part> parts;
  std::function<void(const std::vector<Applied>&)> answer;
  std::optional<Fast> fast;
  bool acquires = false;        // Makes a ticket: one of an ended id is refused.
  bool ends = false;            // A release or cancel.
  bool all_or_nothing = false;  // Each part must be held; the command is never joined with others.
  bool written = false;         // A request was sent whose fate is not known.
  // Where set: called instead of all else unless the fast form decides, or its fate is not known.
  std::function<void()> not_fast;
};
using CommandPtr = std::shared_ptr<Command>;

class Engine {
 public:
  struct Tuning {
    std::function<machine::Instant()> now{};  // Instead of the server's clock.
    bool fast_path = true;
  };

  Engine(std::unique_ptr<Dialect> dialect, Link::Settings link, const port::StoreContext& context,
         Tuning tuning);
  ~Engine();

  const Dialect& dialect() const { return *dialect_; }
  const std::string& channel() const { return channel_; }
  // Where changes of the value beside a lock are told; another lock's may be told there, too.
  std::string value_channel(std::string_view name) const;
  Link& link() { return link_; }
  Now now() const;

  void start() { link_.start(); }
  void submit(CommandPtr command);
  // As submit(), for a caller that waits until `done` is set: it reads the answer itself, so no
  // other thread is on the way. False: others use the link, and nothing was done.
  bool submit_and_read(const CommandPtr& command, const std::atomic<bool>& done);
  // Asks again where the server says that another try may serve, until the question's deadline.
  void ask(Link& link, Request request, std::shared_ptr<Question> question);
  // On the link's thread, now or at `when`.
  void post(std::shared_ptr<Task> task, base::BootInstant when = {});
  // Whether a command about it is under way or waits: for a task.
  bool is_busy(const std::string& name) const { return queues_.contains(name); }
  // Tells the client's own listener, on the loop.
  void push(machine::AcquisitionId id, std::optional<port::AcquisitionState> granted);
  // Notifications arrive; or do not, and then those who wait are asked about.
  void set_listening(bool on);
  bool listening() const { return listening_; }

  void waits(machine::AcquisitionId id, const std::string& name);
  void waits_no_more(machine::AcquisitionId id);

  // Ends what is under way, kClosed; releases have until the deadline.
  void close(base::BootInstant deadline);

  Error error_of(const Answer& answer) const;

 private:
  struct Queue {
    std::deque<CommandPtr> waiting;
    bool busy = false;
  };
  struct Step {
    std::vector<CommandPtr> commands;  // About one lock; or one command about several.
    std::vector<std::string> names;    // Sorted.
    int tries = 0;
    bool by_itself = false;  // Together with others it was refused.
  };
  using StepPtr = std::shared_ptr<Step>;
  struct Ran;
  // A step whose machine has run, and what is to be written of it.
  struct Written {
    StepPtr step;
    std::shared_ptr<Ran> ran;
  };

  bool admit(const CommandPtr& command);
  void enqueue(const CommandPtr& command);
  void start_next(const std::string& name);
  bool ready(const Command& command);
  static void join_waiting(Queue& queue, std::vector<CommandPtr>& commands);
  void begin(std::vector<CommandPtr> commands);
  void send_fast();
  void note_crowds(const Step& step, const Ran& ran);
  void expect_again(std::size_t answered, base::BootInstant sent);
  void send_one(const CommandPtr& command);
  void send_many(std::map<std::string, CommandPtr> commands);
  bool hand_on(const CommandPtr& command);
  void on_handed_on(const CommandPtr& command, const Rows& rows);
  void note_row(const std::string& name);
  bool give_up(const CommandPtr& command);
  void leave_to_machine(const CommandPtr& command, const Answer& answer);
  void read(const StepPtr& step);
  void on_read(const StepPtr& step, Answer answer);
  void follow_clock(const StepPtr& step, const std::vector<ReadLock>& locks);
  bool run(const StepPtr& step, const std::vector<ReadLock>& locks, Ran& ran);
  bool run_part(const Command& command, std::size_t part, Ran& ran);
  bool finish_if_unchanged(const StepPtr& step, const Ran& ran);
  void write(const StepPtr& step, const std::shared_ptr<Ran>& ran);
  void send_writes();
  bool may_go_together(const Step& step) const;
  void send_apart(std::vector<Written> steps);
  void on_not_written(const Written& written, const Answer& answer, bool together);
  void add_writes(const Ran& ran, Writes& writes) const;
  void answer_all(const StepPtr& step, const Ran& ran);
  void again(const StepPtr& step, const Answer* lost);
  void put(Link& link, const std::shared_ptr<Question>& question);
  void finish(const std::vector<std::string>& names);
  void fail(const CommandPtr& command, const Answer& why);
  Error closed_error() const;
  void settle(const Command& command, const std::vector<Applied>& applied);
  void refuse_later(const std::string& name, machine::AcquisitionId id);
  void expire_waiting();
  void poll_within(std::chrono::milliseconds pause);
  std::chrono::milliseconds next_pause();
  void look_at_waiting(const port::Task& next);
  base::BootInstant deadline_of(const Step& step) const;

  void connected();
  void lost(const std::string& why);
  void tell(std::string line);
  bool take(const std::shared_ptr<Operation>& operation);  // False: it has ended.

  port::Loop* const loop_;
  port::Listener* const listener_;
  const std::unique_ptr<Dialect> dialect_;
  const std::string channel_;
  const Tuning tuning_;

  base::LocalMutex mutex_;
  base::LocalCondition ended_one_;
  std::unordered_set<std::shared_ptr<Operation>> live_ HOLDFAST_GUARDED_BY(mutex_);
  std::size_t ends_under_way_ HOLDFAST_GUARDED_BY(mutex_) = 0;
  bool closed_ HOLDFAST_GUARDED_BY(mutex_) = false;

  // The link's thread's.
  std::unordered_map<std::string, Queue> queues_;
  rows::EndedIds ended_{8192};
  rows::EndedIds late_{8192};  // Their requests may still arrive.
  std::unordered_map<machine::AcquisitionId, std::string,
                     std::size_t (*)(const machine::AcquisitionId&)>
      waiting_;
  std::vector<CommandPtr> fast_;  // They go together, once the statement before is answered.
  bool fast_sent_ = false;
  std::size_t expected_ = 0;  // So many are likely to come until then.
  base::BootInstant expected_by_{};
  bool lingers_ = false;
  // Locks that somebody waited for when they were seen last: their fast form would be in vain.
  std::unordered_set<std::string> crowded_;
  std::unordered_set<std::string> have_rows_;  // Locks whose rows were seen.
  bool hand_on_sent_ = false;
  std::deque<Written> writes_;  // The same for these.
  bool writes_sent_ = false;
  std::atomic<bool> listening_{false};
  bool was_connected_ = false;
  base::BootInstant next_poll_ = base::BootInstant::max();
  std::chrono::milliseconds poll_{20};
  std::optional<std::int64_t> nearest_;  // How many are ahead of the first of the waiting.
  bool moved_ = false;                   // Since the last look.
  base::Jitter jitter_;
  Link link_;  // Last: its thread ends first.
};

}  // namespace holdfast::sql
