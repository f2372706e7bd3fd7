// The guard's side of guard.h. It has one thread, and does not use the lock library.

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <deque>
#include <utility>

#include "src/cli/guard/guard.h"
#include "src/cli/process/command_groups.h"
#include "src/cli/process/contain.h"
#include "src/cli/process/exec_environment.h"
#include "src/cli/process/priority.h"
#include "src/cli/process/process_tree.h"
#include "src/cli/text/output.h"

namespace holdfast::cli {
namespace {

using namespace std::chrono_literals;

class GuardProcess {
 public:
  GuardProcess(const GuardPlan& plan, const Signals& signals, Fd link, Fd life, pid_t keeper)
      : plan_(plan),
        signals_(signals),
        link_(std::move(link)),
        life_(std::move(life)),
        keeper_(keeper) {}

  [[noreturn]] void run();

 private:
  void read_link();
  void on_message(const GuardMessage& message);
  void on_owner_gone();
  void on_keeper_gone();
  void launch(const GuardMessage& message);
  [[noreturn]] void cannot_launch(int error);
  [[noreturn]] void leave(int status);
  [[noreturn]] void become_command(ExecEnvironment& environment, Fd go, Fd status);
  int contain_command() const;
  void leave_session() const;
  void close_what_is_not_ours() const;
  void read_status();
  void reap();
  void on_command_change(int status);
  void on_no_child();
  void pass_on(int signal) const;
  void continue_in_front() const;
  Nanos latest_kill() const;
  Nanos begin_of_end() const { return latest_kill() - terms_.kill_after; }
  // The time of the first look at the tree, unless an extension of the deadline causes one earlier.
  Nanos first_look() const { return begin_of_end() - 2 * terms_.most_effort; }
  void look_at_tree();
  void begin_end(EndReason reason);
  void ask_to_end(Nanos now);
  void on_time(Nanos now);
  void kill_pass(Nanos now);
  void make_alarm();
  void set_timer() const;
  bool watches_deadline() const { return plan_.on_lost != OnLost::kIgnore; }
  void say(GuardWord word, int number = 0, std::int64_t instant = 0);
  void flush_words();

  const GuardPlan& plan_;
  GuardTerms terms_;
  const Signals& signals_;
  Fd link_;
  Fd life_;  // Only we have this end; our death closes it.
  pid_t keeper_;
  bool keeper_gone_ = false;
  bool owner_died_ = false;
  Fd timer_;
  std::optional<timer_t> alarm_;
  Fd go_;
  Fd status_;
  pid_t command_ = 0;
  CommandGroups groups_;
  bool running_ = false;             // The command is not reaped yet, so its id is still valid.
  std::deque<GuardMessage> unsaid_;  // Messages for an end that does not read at present.
  bool refused_told_ = false;
  Nanos deadline_{};
  std::optional<Nanos> kill_at_;  // Set while the tree is being ended.
  Nanos kill_pause_ = 5ms;
};

// A stopped program does not read, and must not block the guard.
void GuardProcess::say(GuardWord word, int number, std::int64_t instant) {
  if (!link_) return;
  const auto passing = [](GuardWord any) {
    return any == GuardWord::kStopped || any == GuardWord::kContinued;
  };
  // Only the latest of these matters, so the queue stays short however often the command is
  // stopped.
  if (passing(word) && !unsaid_.empty() && passing(unsaid_.back().word)) unsaid_.pop_back();
  unsaid_.push_back({word, number, instant, {}});
  flush_words();
}

void GuardProcess::flush_words() {
  while (link_ && !unsaid_.empty()) {
    if (!send_message(link_.get(), unsaid_.front()) && errno == EAGAIN) return;
    unsaid_.pop_front();
  }
}

// With nothing left to end, the guard may wait until its last messages are read.
void GuardProcess::leave(int status) {
  for (flush_words(); !unsaid_.empty(); flush_words()) {
    pollfd room{link_.get(), POLLOUT, 0};
    ::poll(&room, 1, -1);
  }
  ::_exit(status);
}

void GuardProcess::cannot_launch(int error) {
  say(GuardWord::kCannotRun, error);
  say(GuardWord::kTreeEmpty);
  leave(125);
}

void GuardProcess::launch(const GuardMessage& message) {
  deadline_ = Nanos(message.instant);
  ExecEnvironment environment(message.text);
  int go[2];
  int status[2];
  if (::pipe2(go, O_CLOEXEC) != 0) cannot_launch(errno);
  Fd go_read(go[0]);
  go_.reset(go[1]);
  if (::pipe2(status, O_CLOEXEC) != 0) cannot_launch(errno);
  status_.reset(status[0]);
  Fd status_write(status[1]);
  command_ = ::fork();
  if (command_ < 0) cannot_launch(errno);
  if (command_ == 0) {
    become_command(environment, std::move(go_read), std::move(status_write));
  }
  running_ = true;
  groups_.add_command(command_);
  status_write.reset();
  char grouped = 0;
  while (::read(status_.get(), &grouped, 1) < 0 && errno == EINTR) {
  }
  leave_session();
  close_what_is_not_ours();
  say(GuardWord::kSpawned, command_, ::getpid());
}

void GuardProcess::become_command(ExecEnvironment& environment, Fd go, Fd status) {
  const pid_t guard = ::getppid();
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != guard || guard == 1) ::_exit(125);
  char byte = 0;
  go_.reset();  // Otherwise we would keep our own pipe open, and wait for ever without a guard.
  if (::write(status.get(), &byte, 1) != 1 || ::read(go.get(), &byte, 1) != 1) ::_exit(125);
  int error = contain_command();
  if (error == 0) {
    become(plan_.command, environment, signals_);
    error = errno;
  }
  [[maybe_unused]] const ssize_t written = ::write(status.get(), &error, sizeof error);
  ::_exit(127);
}

// Returns 0 or an errno. With a pid namespace, the command's process returns from here, behind the
// stand-in.
int GuardProcess::contain_command() const {
  if (plan_.contain == Contain::kCgroup) return enter_cgroup(plan_.cgroup);
  if (plan_.contain != Contain::kPidns) return 0;
  return enter_pid_namespace({plan_.leftover == Leftover::kWait, terms_.kill_after});
}

// Done after the fork of the command, which must stay in the terminal's session and keep its own
// priority.
void GuardProcess::leave_session() const {
  ::setsid();
  raise_priority();
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return;
  ::dup2(null.get(), 0);
  ::dup2(null.get(), 1);
}

// The command has inherited these descriptors. Ending a large tree needs some, and a low limit
// ('ulimit -n') may leave few.
void GuardProcess::close_what_is_not_ours() const {
  std::vector<int> ours{2,         link_.get(),   life_.get(),          signals_.fd(), timer_.get(),
                        go_.get(), status_.get(), groups_.command_pin()};
  std::sort(ours.begin(), ours.end());
  unsigned from = 3;
  for (const int fd : ours) {
    if (fd < static_cast<int>(from)) continue;
    if (fd > static_cast<int>(from)) ::close_range(from, static_cast<unsigned>(fd) - 1, 0);
    from = static_cast<unsigned>(fd) + 1;
  }
  ::close_range(from, ~0U, 0);
}

void GuardProcess::read_status() {
  int error = 0;
  const ssize_t n = ::read(status_.get(), &error, sizeof error);
  if (n < 0 && errno == EINTR) return;
  status_.reset();
  go_.reset();
  say(n == sizeof error ? GuardWord::kCannotRun : GuardWord::kStarted, error);
}

void GuardProcess::pass_on(int signal) const {
  if (!running_) {
    // If the command has ended, the signal goes to its remaining processes.
    if (command_ > 0 && is_for_group(signal)) signal_tree(::getpid(), signal);
    return;
  }
  ::kill(is_for_group(signal) ? -command_ : command_, signal);
}

// The signal is not sent to the group, because the anchor in it must keep its pending one
// (GroupAnchor::was_asked_to_stop).
void GuardProcess::continue_in_front() const {
  if (!running_) return pass_on(SIGCONT);
  for (const Process& process : descendants_of(::getpid())) {
    if (::getpgid(process.pid) == command_) ::kill(process.pid, SIGCONT);
  }
}

void GuardProcess::on_message(const GuardMessage& message) {
  switch (message.word) {
    case GuardWord::kTerms: {
      std::memcpy(&terms_, message.text.data(), std::min(message.text.size(), sizeof terms_));
      return;
    }
    case GuardWord::kLaunch: return launch(message);
    case GuardWord::kGo: {
      const char byte = 0;
      [[maybe_unused]] const ssize_t written = ::write(go_.get(), &byte, 1);
      return;
    }
    case GuardWord::kExtend: {
      deadline_ = Nanos(message.instant);
      return look_at_tree();
    }
    case GuardWord::kSignal: return pass_on(message.number);
    case GuardWord::kContinue: return continue_in_front();
    case GuardWord::kLost: return begin_end(EndReason::kLost);
    case GuardWord::kGone: return on_owner_gone();
    default: return;
  }
}

void GuardProcess::read_link() {
  while (link_) {
    const auto message = receive_message(link_.get());
    if (!message) return;
    on_message(*message);
  }
}

void GuardProcess::on_owner_gone() {
  link_.reset();
  unsaid_.clear();
  if (command_ <= 0) {
    remove_cgroup(plan_.cgroup);
    ::_exit(0);
  }
  if (!watches_deadline()) return;
  owner_died_ = true;
  begin_end(EndReason::kOwnerDied);
}

// If we were killed now, too, nobody would end the rest. So there is no time for SIGTERM.
void GuardProcess::on_keeper_gone() {
  if (command_ <= 0) ::_exit(125);
  if (std::exchange(keeper_gone_, true)) return;
  if (!kill_at_) say(GuardWord::kEnding, static_cast<int>(EndReason::kKeeperDied));
  kill_pass(boottime_now());
}

// Killing the tree process by process takes several times as long as the last look at it.
Nanos GuardProcess::latest_kill() const {
  constexpr int kEfforts = 4;
  return deadline_ - terms_.reserve - std::min(groups_.effort() * kEfforts, terms_.most_effort);
}

void GuardProcess::look_at_tree() {
  if (command_ > 0 && !kill_at_) groups_.look(::getpid(), terms_.most_effort);
}

void GuardProcess::begin_end(EndReason reason) {
  if (kill_at_ || command_ <= 0) return;
  const Nanos now = boottime_now();
  const bool at_once = plan_.on_lost == OnLost::kKill && reason != EndReason::kLeftover;
  kill_at_ = at_once ? now : now + terms_.kill_after;
  if (watches_deadline()) kill_at_ = std::min(*kill_at_, latest_kill());
  say(GuardWord::kEnding, static_cast<int>(reason));
  if (*kill_at_ <= now) return kill_pass(now);
  ask_to_end(now);
}

// SIGCONT, because a stopped process would not notice the SIGTERM. Only known groups get it,
// because on a busy machine a search could last beyond the time of SIGKILL.
void GuardProcess::ask_to_end(Nanos now) {
  groups_.signal(SIGTERM);
  groups_.signal(SIGCONT);
  constexpr int kEfforts = 8;
  if (*kill_at_ - now < groups_.effort() * kEfforts) return;
  const Limits limits{0, groups_.ids(), now + (*kill_at_ - now) / 2};
  signal_tree(::getpid(), SIGTERM, limits);
  signal_tree(::getpid(), SIGCONT, limits);
}

void GuardProcess::kill_pass(Nanos now) {
  // The cgroup first: this is cheap for any tree, and needs no /proc.
  if (!plan_.cgroup.empty()) kill_cgroup(plan_.cgroup);
  // A stopped process neither forks nor runs a handler, so nothing new appears during the pass.
  groups_.signal(SIGSTOP);
  groups_.signal(SIGKILL);
  if (running_) ::kill(command_, SIGKILL);
  const SignalOutcome outcome = kill_tree(::getpid());
  if (!outcome.refused.empty() && !refused_told_) {
    refused_told_ = true;
    say(GuardWord::kRefused, outcome.refused.front());
  }
  kill_at_ = now + kill_pause_;
  kill_pause_ = std::min<Nanos>(kill_pause_ * 2, 250ms);
}

void GuardProcess::on_time(Nanos now) {
  if (kill_at_) {
    if (now >= *kill_at_) kill_pass(now);
    return;
  }
  if (command_ <= 0 || !watches_deadline()) return;
  if (!groups_.have_looked() && now >= first_look()) look_at_tree();
  if (now >= begin_of_end()) begin_end(EndReason::kLeaseRanOut);
}

// A descriptor does not continue a stopped process, but a signal does. It comes in time even if
// everybody who could continue us is stopped, too.
void GuardProcess::make_alarm() {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGCONT;
  timer_t alarm{};
  if (::timer_create(CLOCK_BOOTTIME, &event, &alarm) == 0) alarm_ = alarm;
}

void GuardProcess::set_timer() const {
  Nanos at{};
  if (kill_at_) {
    at = *kill_at_;
  } else if (command_ > 0 && watches_deadline()) {
    at = groups_.have_looked() ? begin_of_end() : std::min(first_look(), begin_of_end());
  }
  itimerspec spec{};
  if (at != Nanos::zero()) {
    at = std::max<Nanos>(at, 1ns);  // Zero would disarm it.
    spec.it_value.tv_sec = at / 1s;
    spec.it_value.tv_nsec = (at % 1s).count();
  }
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
  if (alarm_) ::timer_settime(*alarm_, TIMER_ABSTIME, &spec, nullptr);
}

void GuardProcess::on_command_change(int status) {
  if (WIFSTOPPED(status)) return say(GuardWord::kStopped, WSTOPSIG(status));
  if (WIFCONTINUED(status)) return say(GuardWord::kContinued);
  running_ = false;
  groups_.command_is_reaped();
  if (status_) read_status();  // Read the outcome of exec first.
  say(GuardWord::kExited, status);
}

void GuardProcess::reap() {
  // Only the first look after the command's end reports what it left behind.
  const bool had_ended = command_ > 0 && !running_;
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED);
    if (pid < 0 && errno == EINTR) continue;
    if (pid < 0) return on_no_child();
    if (pid == 0) break;
    if (pid == command_) on_command_change(status);
  }
  if (running_ || had_ended || command_ <= 0) return;
  const int left = static_cast<int>(descendants_of(::getpid()).size());
  if (plan_.leftover == Leftover::kLeave && !kill_at_) {
    say(GuardWord::kLeft, left);
    leave(kLeftAlone);
  }
  say(GuardWord::kLeftover, left);
  if (plan_.leftover == Leftover::kEnd) begin_end(EndReason::kLeftover);
}

// Messages for people come last, because a full pipe must not keep the guard from its work.
void GuardProcess::on_no_child() {
  if (command_ <= 0) return;
  while (!plan_.cgroup.empty() && is_in_use(plan_.cgroup)) {  // By others.
    kill_cgroup(plan_.cgroup);
    ::poll(nullptr, 0, 5);
  }
  if (owner_died_) remove_cgroup(plan_.cgroup);
  if (owner_died_ && !plan_.quiet) {
    complain("the process that kept the lock has died: the command was ended");
  }
  say(GuardWord::kTreeEmpty);
  leave(0);
}

void GuardProcess::run() {
  ::prctl(PR_SET_NAME, "holdfast-guard");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);  // Wakes the loop, even if it was stopped.
  timer_.reset(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  make_alarm();
  for (;;) {
    if (::getppid() != keeper_) on_keeper_gone();
    set_timer();
    const auto wanted = static_cast<short>(unsaid_.empty() ? POLLIN : POLLIN | POLLOUT);
    std::array<pollfd, 4> watched{{{link_.get(), wanted, 0},
                                   {signals_.fd(), POLLIN, 0},
                                   {timer_.get(), POLLIN, 0},
                                   {status_.get(), POLLIN, 0}}};
    if (::poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR) ::_exit(125);
    std::uint64_t ticks = 0;
    [[maybe_unused]] const ssize_t n = ::read(timer_.get(), &ticks, sizeof ticks);
    if (status_ && watched[3].revents != 0) read_status();
    flush_words();
    read_link();  // Extensions first, because they postpone the clock's actions.
    on_time(boottime_now());
    while (signals_.next()) {
    }
    reap();
  }
}

}  // namespace

void run_guard_process(const GuardPlan& plan, const Signals& signals, Fd link, Fd life,
                       pid_t keeper) {
  GuardProcess(plan, signals, std::move(link), std::move(life), keeper).run();
}

}  // namespace holdfast::cli
