// The guard is a process that ends the command and all its descendants before anybody else can get
// the lease. It does so even if this process is killed or stopped.
//
//   we                     guard                               command
//   start()                forked by the keeper                -
//   wait for the lock      -                                   -
//   launch(deadline)       forks the command, in a session     waits for go()
//   extend(deadline)       puts the end off                    runs
//   (silence)              TERM and KILL, as below             ends
//   (killed)               the same, at once                   ends
//   waits                  -                                   ended: next() says kExited
//   releases the lock      no descendant left: kTreeEmpty      -
//
// Guarantee: without an extension, SIGTERM reaches every descendant at deadline - kill_after -
// reserve, and SIGKILL at deadline - reserve at the latest. Both are repeated until no descendant
// is left. The guard is their subreaper, so this includes those that called setsid, forked twice,
// or ignore SIGTERM. Between us and the guard is its keeper, which continues a stopped guard. When
// the guard dies, the keeper inherits the rest of the command and ends it. When the keeper dies,
// the guard kills the command at once. If all of us are stopped, timers and pipes of the kernel
// continue guard and keeper. So a descendant survives only if both die, the second before it has
// finished; then left_nothing() is false.
// Guarantee: only descendants of the command are signalled.
// Not guaranteed: that we get the processor in time on a starved machine. (The reserve grows with
// the cost of a look at the tree, up to a tenth of the ttl.) Descendants may survive that run as
// another user, sleep uninterruptibly or are frozen. If guard and keeper are both killed within
// moments, only the command itself dies, by its parent-death signal. A tree that was asleep with
// the whole machine is ended when it wakes.
//
// Thread-safety: start() before any thread is made; the rest from one thread.
// Time: CLOCK_BOOTTIME.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/result.h"
#include "src/cli/guard/guard_wire.h"
#include "src/cli/options/options.h"
#include "src/cli/process/boottime.h"
#include "src/cli/process/fd.h"
#include "src/cli/process/signals.h"

namespace holdfast::cli {

struct GuardPlan {
  std::vector<std::string> command;
  OnLost on_lost = OnLost::kTerm;
  Leftover leftover = Leftover::kEnd;
  Contain contain = Contain::kTree;
  std::string cgroup{};  // For kCgroup: the path of the existing cgroup.
  bool quiet = false;
};

// The terms for a lease that each renewal makes at least this long. SIGKILL is sent a tenth of the
// lease before its end (10 ms to 1 s). So its work is done in time even on a busy machine.
GuardTerms guard_terms(Nanos kill_after, Nanos lease);

// The exit status of a guard that left processes alone on purpose; its keeper exits alike.
inline constexpr int kLeftAlone = 3;

using Environment = std::vector<std::pair<std::string, std::string>>;
// "NAME=VALUE\0..."
std::string assignments(const Environment& environment);

// kUnavailable, from the errno of a fork.
Error cannot_start_guard(int error);

class Guard {
 public:
  // Errors: kUnavailable: no process or descriptor is available.
  static Result<Guard> start(const GuardPlan& plan, const Signals& signals);

  int fd() const { return link_.get(); }

  // Sends the terms, which follow from the lease, and starts the command. false: nothing was sent;
  // errno is EMSGSIZE if the environment is too large.
  bool launch(const Environment& environment, const GuardTerms& terms, Nanos deadline) const;
  void go() const { send({GuardWord::kGo, 0, 0, {}}); }
  // false if the guard does not read at present; retry later.
  bool extend(Nanos deadline) const { return send({GuardWord::kExtend, 0, deadline.count(), {}}); }
  void signal(int number) const { send({GuardWord::kSignal, number, 0, {}}); }
  void continue_in_front() const { send({GuardWord::kContinue, 0, 0, {}}); }
  // Ends the command as after a loss.
  void end_command() const { send({GuardWord::kLost, 0, 0, {}}); }
  std::optional<GuardMessage> next() const { return receive_message(link_.get()); }

  // Whether the keeper has ended. Continues a stopped one.
  bool ended();
  // After ended(): whether surely nothing of the command is left. The keeper ends by itself only
  // then; a killed keeper leaves this unknown.
  bool left_nothing() const { return keeper_ended_by_itself_; }
  // Ends the tree without the guard's help, and spares `guard` (kSpawned names it).
  void end_tree(pid_t guard) const;
  // Dismisses a guard without further work, and waits for its end.
  void finish();

 private:
  Guard(pid_t keeper, Fd link) : keeper_(keeper), link_(std::move(link)) {}
  bool has_ended(int wait_options);
  bool send(const GuardMessage& message) const { return send_message(link_.get(), message); }

  pid_t keeper_ = 0;
  bool keeper_ended_by_itself_ = false;
  Fd link_;
};

// The main functions of the forked processes.
[[noreturn]] void run_keeper_process(const GuardPlan& plan, const Signals& signals, Fd link);
// `life` is a pipe that closes when the guard dies; the keeper watches it.
[[noreturn]] void run_guard_process(const GuardPlan& plan, const Signals& signals, Fd link, Fd life,
                                    pid_t keeper);

}  // namespace holdfast::cli
