#include "src/cli/guard.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace holdfast::cli {

Nanos reserve_for(Nanos ttl) {
  using namespace std::chrono_literals;
  return std::clamp<Nanos>(ttl / 10, 10ms, 1s);
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
  if (pid < 0) {
    return Error(Errc::kUnavailable,
                 std::string("cannot start the guard process: ") + std::strerror(errno));
  }
  if (pid == 0) {
    ours.reset();
    run_guard_process(plan, signals, std::move(theirs));
  }
  return Guard(pid, std::move(ours));
}

bool Guard::launch(const Environment& environment, Nanos deadline) const {
  GuardMessage message{GuardWord::kLaunch, 0, deadline.count(), {}};
  for (const auto& [name, value] : environment) message.text += name + "=" + value + '\0';
  return send(message);
}

void Guard::wait() {
  if (pid_ <= 0) return;
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
}

}  // namespace holdfast::cli
