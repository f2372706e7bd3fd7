// The keeper's side of guard.h: the guard's parent, which takes over what a dead guard leaves.

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>

#include "src/cli/guard.h"
#include "src/cli/process_tree.h"

namespace holdfast::cli {
namespace {

using namespace std::chrono_literals;

// All that is below us descends from the command. Exact, as we are its subreaper: it is over when
// the kernel says that we have no child.
[[noreturn]] void end_the_rest() {
  for (auto pause = 1ms;; pause = std::min<std::chrono::milliseconds>(pause * 2, 250ms)) {
    kill_tree(::getpid());
    ::poll(nullptr, 0, static_cast<int>(pause.count()));
    pid_t reaped = 0;
    do {
      reaped = ::waitpid(-1, nullptr, WNOHANG);
    } while (reaped > 0 || (reaped < 0 && errno == EINTR));
    if (reaped < 0) ::_exit(125);
  }
}

}  // namespace

void run_keeper_process(const GuardPlan& plan, const Signals& signals, Fd link) {
  ::prctl(PR_SET_NAME, "holdfast-keeper");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);  // Should it be stopped when nobody sets it going again.
  const pid_t keeper = ::getpid();
  const pid_t guard = ::fork();
  if (guard < 0) ::_exit(125);
  if (guard == 0) run_guard_process(plan, signals, std::move(link), keeper);
  // An open end of the link would hide the guard's death, one of a pipe the program's.
  ::close_range(0, ~0U, 0);
  ::setsid();
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WUNTRACED);
    if (pid < 0 && errno != EINTR) ::_exit(0);
    if (pid != guard) continue;
    if (!WIFSTOPPED(status)) end_the_rest();
    ::kill(guard, SIGCONT);  // It would miss its hour.
  }
}

}  // namespace holdfast::cli
