#include "src/cli/run/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "src/cli/options/duration.h"
#include "src/cli/process/process_tree.h"
#include "src/cli/run/lock_attempt.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {

using namespace std::chrono_literals;

Supervisor::Supervisor(Parts parts, const Lease& lease, Duration length, Duration max_hold)
    : parts_(parts),
      lease_(lease),
      tick_(std::clamp<Duration>(length / 20, 5ms, 1s)),
      max_hold_(max_hold) {
  if (max_hold > Duration::zero()) max_hold_end_ = boottime_now() + max_hold;
}

SupervisedEnd Supervisor::run(const Environment& environment) {
  const std::stop_callback on_loss(lease_.lost(), [bell = lost_bell_] { bell->ring(); });
  told_deadline_ = lease_.deadline_boottime();
  if (!parts_.guard.launch(environment, parts_.terms, told_deadline_) && errno == EMSGSIZE) {
    end_.cannot_run = E2BIG;
    end_.tree_empty = true;
    return end_;
  }
  while (!done_) {
    wait_for_something();
    look_at_lease();
    look_at_max_hold();
    look_at_terminal();
    read_signals();
    while (!done_) {
      const auto message = parts_.guard.next();
      if (!message) break;
      on_message(*message);
    }
    if (end_.lost && !done_) back_up_guard();
  }
  parts_.terminal.take_back();
  return end_;
}

void Supervisor::wait_for_something() const {
  std::array<pollfd, 3> watched{{{parts_.signals.fd(), POLLIN, 0},
                                 {parts_.guard.fd(), POLLIN, 0},
                                 {lost_bell_->fd(), POLLIN, 0}}};
  const auto left = std::chrono::ceil<Duration>(max_hold_end_ - boottime_now());
  const Duration pause = end_.max_held ? tick_ : std::clamp(left, 0ms, tick_);
  ::poll(watched.data(), watched.size(), static_cast<int>(pause.count()));
  lost_bell_->quiet();
}

void Supervisor::look_at_lease() {
  if (end_.lost) return;
  if (!may_be_held(lease_)) {
    const auto why = lease_.loss();
    return on_lost(why ? printable(why->message()) : "the lease ran out",
                   why ? why->code() : Errc::kLost);
  }
  const Nanos deadline = lease_.deadline_boottime();
  if (deadline <= told_deadline_) return;
  if (!parts_.guard.extend(deadline)) return;
  // A renewal that found nothing new moves the deadline by the time of a request.
  const bool worth_telling = deadline - told_deadline_ >= tick_;
  told_deadline_ = deadline;
  if (worth_telling) parts_.narrator.event("renewed", lease_.remaining());
}

// The lock is held, and renewed, until the command has ended.
void Supervisor::look_at_max_hold() {
  if (end_.max_held || end_.lost || boottime_now() < max_hold_end_) return;
  if (command_ == 0) return;  // It is about to be there.
  end_.max_held = true;
  const std::string why =
      "the command ran for as long as --max-hold allows, " + format_duration(max_hold_);
  parts_.narrator.event("max_hold", lease_.remaining(),
                        {{"message", why}, {"command_ended", true}});
  parts_.narrator.alarm(why + ", under the " + parts_.narrator.lock() + ": ending it");
  parts_.guard.end_command();
}

void Supervisor::on_lost(const std::string& why, Errc code) {
  if (end_.lost) return;
  end_.lost = true;
  parts_.narrator.event("lost", Duration::zero(),
                        {{"message", why}, {"command_ended", ends_tree()}});
  const std::string lost = parts_.narrator.loss(why);
  if (!ends_tree()) {
    return parts_.narrator.lost(lost +
                                    "; the command goes on without it, as --on-lost ignore"
                                    " says: somebody else may hold the lock now",
                                code);
  }
  parts_.narrator.lost(lost + "; ending the command", code);
  parts_.guard.end_command();
}

void Supervisor::read_signals() {
  while (const auto signal = parts_.signals.next()) on_signal(*signal);
}

void Supervisor::on_signal(int signal) {
  switch (signal) {
    case SIGCHLD:
      parts_.guard.ended();
      return;  // Its end shows on the link; it goes on if stopped.
    case SIGTTIN:
    case SIGTTOU: return;  // We use the terminal for messages only.
    case SIGTSTP:
      stop_asked_ = true;
      next_terminal_look_ = boottime_now() + 1s;  // They are stopped because they were asked to.
      break;
    case SIGCONT:
      if (command_ != 0 && !end_.status && (in_front_ || !group_peers().any)) give_terminal();
      break;
    default:
      parts_.narrator.event("signal", lease_.remaining(), {{"signal", signal_name(signal)}});
      break;
  }
  parts_.guard.signal(signal);
}

void Supervisor::on_message(const GuardMessage& message) {
  const Narrator& narrator = parts_.narrator;
  switch (message.word) {
    case GuardWord::kSpawned: return on_spawned(message);
    case GuardWord::kStarted:
      narrator.event("started", lease_.remaining(), {{"command_pid", command_}});
      return;
    case GuardWord::kCannotRun: end_.cannot_run = message.number; return;
    case GuardWord::kStopped: return on_stopped(message.number);
    case GuardWord::kContinued:
      if (std::exchange(continuing_in_front_, false) && parts_.anchor.was_asked_to_stop()) {
        parts_.guard.signal(SIGTSTP);
      }
      return;
    case GuardWord::kExited: return on_exited(message.number);
    case GuardWord::kLeftover:
      if (end_.lost || end_.max_held || end_.guard_died) return;
      return narrator.note(
          std::to_string(message.number) + " process(es) of the command are still running" +
          (parts_.plan.leftover == Leftover::kWait ? ": the lock is held until they end"
                                                   : ": ending them (see --leftover)"));
    case GuardWord::kEnding:
      if (message.number == static_cast<int>(EndReason::kLeaseRanOut)) {
        on_lost("it could not be renewed in time");
      }
      if (message.number == static_cast<int>(EndReason::kKeeperDied)) end_.guard_died = true;
      return;
    case GuardWord::kRefused:
      return narrator.alarm("cannot end process " + std::to_string(message.number) +
                            ": it runs as another user; end it by hand");
    case GuardWord::kCannotStart: end_.cannot_guard = message.number; return;
    case GuardWord::kLeft: end_.left_alone = message.number; [[fallthrough]];
    case GuardWord::kTreeEmpty: end_.tree_empty = done_ = true; return;
    case GuardWord::kGone: return on_guard_gone();
    default: return;
  }
}

void Supervisor::on_spawned(const GuardMessage& message) {
  command_ = message.number;
  guard_ = static_cast<pid_t>(message.instant);
  // Where nobody could continue a stopped job, the command must not stop either: in an orphaned
  // group the kernel sees to that.
  const bool shared = parts_.terminal.ours() && group_peers().any;
  if (shared || !own_group_is_orphaned()) parts_.anchor.join(command_);
  // The others of a pipeline may need the terminal, as a pager does. Then the command gets it only
  // when it stops for the want of it.
  if (!shared) give_terminal();
  let_go_of_standard_streams();
  parts_.guard.go();
}

// The command has them: whoever reads or writes their other ends is to see when it closes them.
void Supervisor::let_go_of_standard_streams() const {
  if (parts_.keeps_streams) return;
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO}) {
    if (null && fd != parts_.narrator.setup().json_fd) ::dup2(null.get(), fd);
  }
}

// While the command has the terminal, a process of our own group that reaches for it is stopped.
// The command may be waiting for that very process to empty a pipe.
void Supervisor::look_at_terminal() {
  if (!parts_.terminal.gave() || boottime_now() < next_terminal_look_) return;
  next_terminal_look_ = boottime_now() + 1s;
  // After a Ctrl-Z nobody reached for it; our SIGCONT would take the Ctrl-Z back, ours too.
  if (!group_peers().stopped || Signals::has_come(SIGTSTP)) return;
  in_front_ = false;
  parts_.terminal.take_back();
  ::kill(0, SIGCONT);
  parts_.signals.discard(SIGCONT);
}

void Supervisor::on_stopped(int signal) {
  const bool by_terminal = parts_.terminal.gave();
  const bool background_access = signal == SIGTTIN || signal == SIGTTOU;
  if (!by_terminal && !stop_asked_ && !background_access) return;  // Stopped by a debugger, say.
  // Ctrl-Z may be pressed just as the command reaches for the terminal. Then it is to stop.
  const bool wants_terminal = background_access && !by_terminal && !stop_asked_;
  stop_asked_ = false;
  if (wants_terminal) {
    parts_.anchor.forget_stops();
    give_terminal();
  }
  const bool given = wants_terminal && parts_.terminal.gave();
  if (given || own_group_is_orphaned()) {
    // With nobody to bring us to the front, reaching for the terminal must fail instead of stop.
    if (wants_terminal && !given) parts_.anchor.join(::getpgrp());
    if (!given) return parts_.guard.signal(SIGCONT);
    continuing_in_front_ = true;
    return parts_.guard.continue_in_front();
  }
  if (!end_.lost) {
    parts_.narrator.note("stopped while holding " + in_quotes(parts_.narrator.setup().name) +
                         ": go on within " + format_duration(lease_.remaining()) +
                         " or the lock is lost and the command is ended");
  }
  parts_.terminal.take_back();
  if (by_terminal && signal == SIGTSTP) {
    // The rest of a pipeline stands in our group, which was not in front. The shell comes back with
    // its prompt only when it sees the whole job stopped.
    ::kill(0, SIGTSTP);
    parts_.signals.discard(SIGTSTP);
  }
  stop_self();
}

void Supervisor::on_exited(int status) {
  end_.status = status;
  const bool was_in_front = parts_.terminal.gave();
  parts_.terminal.take_back();
  if (was_in_front && group_peers().stopped) {
    ::kill(0, SIGCONT);
    parts_.signals.discard(SIGCONT);
  }
  Json more;
  if (WIFSIGNALED(status)) {
    more["signal"] = signal_name(WTERMSIG(status));
  } else {
    more["status"] = WEXITSTATUS(status);
  }
  if (!end_.cannot_run) parts_.narrator.event("exited", lease_.remaining(), more);
}

void Supervisor::on_guard_gone() {
  end_.guard_died = true;
  done_ = true;
  while (!parts_.guard.ended()) {  // Its keeper ends the tree first.
    ::poll(nullptr, 0, 2);
    look_at_lease();
  }
  // A command that has not been told to go ends by itself.
  end_.tree_empty = parts_.guard.left_nothing() || command_ == 0;
}

// The guard ends the tree; should it be stuck, we do it ourselves at the last moment.
void Supervisor::back_up_guard() {
  if (!ends_tree() || guard_ <= 0) return;
  if (boottime_now() >= told_deadline_ - parts_.terms.reserve / 2) parts_.guard.end_tree(guard_);
}

}  // namespace holdfast::cli
