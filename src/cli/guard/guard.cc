#include "src/cli/guard/guard.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "holdfast/detail/renewal_schedule.h"
#include "src/cli/process/process_tree.h"

namespace holdfast::cli {

GuardTerms guard_terms(Nanos kill_after, Nanos lease) {
  const detail::RenewalSchedule schedule(lease);
  return {kill_after, schedule.kill_reserve(), schedule.longest_kill_effort()};
}

Error cannot_start_guard(int error) {
  return {Errc::kUnavailable,
          std::string("cannot start the guard process: ") + std::strerror(error)};
}

Result<Guard> Guard::start(const GuardPlan& plan, const Signals& signals) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return Error(Errc::kUnavailable,
                 std::string("cannot make a socket for the guard: ") + std::strerror(errno));
  }
  Fd ours(ends[0]);
  Fd theirs(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return cannot_start_guard(errno);
  if (pid == 0) {
    ours.reset();
    run_keeper_process(plan, signals, std::move(theirs));
  }
  return Guard(pid, std::move(ours));
}

std::string assignments(const Environment& environment) {
  std::string text;
  for (const auto& [name, value] : environment)
    text.append(name).append("=").append(value).push_back('\0');
  return text;
}

bool Guard::launch(const Environment& environment, const GuardTerms& terms, Nanos deadline) const {
  std::string bytes(sizeof terms, '\0');
  std::memcpy(bytes.data(), &terms, sizeof terms);
  if (!send({GuardWord::kTerms, 0, 0, std::move(bytes)})) return false;
  return send({GuardWord::kLaunch, 0, deadline.count(), assignments(environment)});
}

bool Guard::has_ended(int wait_options) {
  int status = 0;
  const pid_t pid = keeper_ > 0 ? ::waitpid(keeper_, &status, wait_options | WUNTRACED) : 0;
  // A stopped keeper could not continue a stopped guard, so it is continued.
  if (pid > 0 && WIFSTOPPED(status)) {
    ::kill(keeper_, SIGCONT);
  } else if (pid > 0 || (pid < 0 && errno != EINTR)) {
    keeper_ended_by_itself_ = pid > 0 && WIFEXITED(status);
    keeper_ = 0;
  }
  return keeper_ <= 0;
}

bool Guard::ended() { return has_ended(WNOHANG); }

void Guard::end_tree(pid_t guard) const {
  if (keeper_ <= 0) return;
  ::kill(keeper_, SIGCONT);
  kill_tree(keeper_, {guard, {}, Nanos::max()});
}

void Guard::finish() {
  link_.reset();
  while (!has_ended(0)) {
  }
}

}  // namespace holdfast::cli
