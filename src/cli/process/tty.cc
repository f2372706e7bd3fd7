#include "src/cli/process/tty.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "src/cli/process/process_tree.h"

namespace holdfast::cli {

bool own_group_is_orphaned() {
  pid_t pid = ::getppid();
  while (pid > 0 && ::getpgid(pid) == ::getpgrp()) {
    const auto parent = parent_of(pid);
    if (!parent) return true;
    pid = *parent;
  }
  if (pid > 0 && ::getsid(pid) == ::getsid(0)) return false;
  return !group_has_parent_in_session();
}

Terminal::Terminal() : fd_(::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)) {}

bool Terminal::ours() const { return fd_ && ::tcgetpgrp(fd_.get()) == ::getpgrp(); }

bool Terminal::give_to(pid_t group) {
  if (!ours() || ::tcsetpgrp(fd_.get(), group) != 0) return false;
  given_to_ = group;
  return true;
}

void Terminal::take_back() {
  if (given_to_ == 0) return;
  const pid_t front = ::tcgetpgrp(fd_.get());
  // The command may have put a group of its own in front, as an interactive shell does. By now this
  // group has ended, or was stopped with the rest. Only a shell above us must not be robbed, and it
  // puts itself in front only after we have stopped.
  if (front != ::getpgrp()) ::tcsetpgrp(fd_.get(), ::getpgrp());
  given_to_ = 0;
}

void GroupAnchor::start() {
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NAME, "holdfast-anchor");
  ::close_range(0, ~0U, 0);
  if (::getppid() != parent) ::_exit(0);
  for (;;) ::pause();  // Every signal is blocked since Signals was made.
}

void GroupAnchor::join(pid_t group) const {
  if (pid_ > 0) ::setpgid(pid_, group);
}

void GroupAnchor::forget_stops() const {
  if (pid_ > 0) ::kill(pid_, SIGCONT);
}

bool GroupAnchor::was_asked_to_stop() const { return pid_ > 0 && has_pending(pid_, SIGTSTP); }

void GroupAnchor::stop() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

}  // namespace holdfast::cli
