#include "src/cli/command_groups.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "src/cli/process_tree.h"

namespace holdfast::cli {
namespace {

constexpr std::size_t kMostGroups = 64;

// PIDFD_SIGNAL_PROCESS_GROUP, which older headers lack.
constexpr unsigned kWholeGroup = 1U << 2;

// How long we have been ready to run without running, since our beginning.
Nanos waited_for_processor() {
  const Fd file(::open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC));
  char text[100];
  const ssize_t n = file ? ::read(file.get(), text, sizeof text - 1) : 0;
  if (n <= 0) return Nanos::zero();
  text[n] = '\0';
  char* rest = nullptr;
  std::strtoll(text, &rest, 10);
  return Nanos(std::strtoll(rest, nullptr, 10));
}

}  // namespace

void CommandGroups::add_command(pid_t command) {
  groups_.push_back({command, 0, Fd(static_cast<int>(::syscall(SYS_pidfd_open, command, 0)))});
}

void CommandGroups::add_found(pid_t leader, std::uint64_t start) {
  for (const Group& group : groups_) {
    if (group.id == leader) return;
  }
  if (groups_.size() >= kMostGroups) return;
  Fd pin(static_cast<int>(::syscall(SYS_pidfd_open, leader, 0)));
  if (start_of(leader) != start) return;
  groups_.push_back({leader, start, std::move(pin)});
}

void CommandGroups::look(pid_t root, Nanos most) {
  using namespace std::chrono_literals;
  constexpr int kShareOfTime = 20;
  const Nanos before = boottime_now();
  if (have_looked() && before < looked_at_ + took_ * kShareOfTime) return;
  std::erase_if(groups_,
                [&](const Group& group) { return group.start != 0 && !signal_one(group, 0); });
  for (const Process& process : descendants_of(root, before + most)) {
    if (process.group == process.pid) add_found(process.pid, process.start);
  }
  const Nanos waited = waited_for_processor();
  looked_at_ = boottime_now();
  took_ = looked_at_ - before;
  effort_ = std::max(took_ + (waited - waited_), effort_ / 2);
  waited_ = waited;
}

bool CommandGroups::signal_one(const Group& group, int number) const {
  if (group.pin) {
    if (::syscall(SYS_pidfd_send_signal, group.pin.get(), number, nullptr, kWholeGroup) == 0) {
      return true;
    }
    if (errno != EINVAL && errno != ENOSYS) return errno == EPERM;
  }
  const bool is_still_it = group.start == 0 ? !reaped_ : start_of(group.id) == group.start;
  return is_still_it && (::kill(-group.id, number) == 0 || errno == EPERM);
}

void CommandGroups::signal(int number) const {
  for (const Group& group : groups_) signal_one(group, number);
}

std::vector<pid_t> CommandGroups::ids() const {
  std::vector<pid_t> out;
  for (const Group& group : groups_) out.push_back(group.id);
  return out;
}

}  // namespace holdfast::cli
