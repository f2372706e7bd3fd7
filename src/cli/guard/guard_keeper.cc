// The keeper's side of guard.h: the guard's parent, which takes over after the guard's death.

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>

#include "src/cli/guard/guard.h"
#include "src/cli/process/contain.h"
#include "src/cli/process/process_tree.h"

namespace holdfast::cli {
namespace {

using namespace std::chrono_literals;

// All our descendants belong to the command. As their subreaper we know exactly when none is left:
// the kernel then says that we have no child.
[[noreturn]] void end_the_rest(const std::string& cgroup) {
  for (auto pause = 1ms;; pause = std::min<std::chrono::milliseconds>(pause * 2, 250ms)) {
    if (!cgroup.empty()) kill_cgroup(cgroup);
    kill_tree(::getpid());
    ::poll(nullptr, 0, static_cast<int>(pause.count()));
    pid_t reaped = 0;
    do {
      reaped = ::waitpid(-1, nullptr, WNOHANG);
    } while (reaped > 0 || (reaped < 0 && errno == EINTR));
    if (reaped >= 0) continue;
    remove_cgroup(cgroup);  // A living program does this, too.
    ::_exit(125);
  }
}

[[noreturn]] void cannot_start(const Fd& link, int error) {
  send_message(link.get(), {GuardWord::kCannotStart, error, 0, {}});
  ::_exit(125);
}

// SIGCHLD does not continue a stopped process. The guard holds the other end of this pipe, so when
// it dies the kernel sends us a signal that does. Without a pipe we only fail if somebody stops us.
void be_continued_when_it_closes(int life) {
  ::fcntl(life, F_SETOWN, ::getpid());
  ::fcntl(life, F_SETSIG, SIGCONT);
  ::fcntl(life, F_SETFL, O_ASYNC);
}

}  // namespace

void run_keeper_process(const GuardPlan& plan, const Signals& signals, Fd link) {
  ::prctl(PR_SET_NAME, "holdfast-keeper");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);  // In case it is stopped when nobody else can continue it.
  const pid_t keeper = ::getpid();
  int life[2] = {-1, -1};
  [[maybe_unused]] const int piped = ::pipe2(life, O_CLOEXEC);
  const pid_t guard = ::fork();
  if (guard < 0) cannot_start(link, errno);
  if (guard == 0) {
    ::close(life[0]);
    run_guard_process(plan, signals, std::move(link), Fd(life[1]), keeper);
  }
  // An open end of the link would hide the guard's death, and one of a pipe the program's.
  ::dup2(life[0], 0);
  ::close_range(life[0] < 0 ? 0 : 1, ~0U, 0);
  be_continued_when_it_closes(0);
  ::setsid();
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WUNTRACED);
    if (pid < 0 && errno != EINTR) ::_exit(0);
    if (pid != guard) continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == kLeftAlone) ::_exit(0);
    if (!WIFSTOPPED(status)) end_the_rest(plan.cgroup);
    ::kill(guard, SIGCONT);  // Otherwise it would miss its time.
  }
}

}  // namespace holdfast::cli
