#include "src/cli/process/command_groups.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "src/cli/process/process_tree.h"

namespace holdfast::cli {
namespace {

constexpr std::size_t kMostGroups = 64;

// A walk through /proc takes four descriptors at most. They must be there when the tree is ended.
constexpr rlim_t kKeptFree = 16;

// The kernel gives the lowest free number, so a high one tells that few are left.
bool is_one_of_the_last(int fd) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
         static_cast<rlim_t>(fd) + kKeptFree >= limit.rlim_cur;
}

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
  if (pin && is_one_of_the_last(pin.get())) pin.reset();
  if (start_of(leader) != start) return;
  groups_.push_back({leader, start, std::move(pin)});
}

void CommandGroups::look(pid_t root, Nanos most) {
  using namespace std::chrono_literals;
  constexpr int kShareOfTime = 20;
  const Nanos before = boottime_now();
  if (have_looked() && before < looked_at_ + took_ * kShareOfTime) return;
  std::erase_if(groups_, [&](const Group& group) {
    return group.start != 0 && signal_one(group, 0) == ESRCH;
  });
  for (const Process& process : descendants_of(root, before + most)) {
    if (process.group == process.pid) add_found(process.pid, process.start);
  }
  const Nanos waited = waited_for_processor();
  looked_at_ = boottime_now();
  took_ = looked_at_ - before;
  effort_ = std::max(took_ + (waited - waited_), effort_ / 2);
  waited_ = waited;
}

// 0 or an errno; ESRCH: the group is gone.
int CommandGroups::signal_one(const Group& group, int number) const {
  if (group.pin) {
    if (::syscall(SYS_pidfd_send_signal, group.pin.get(), number, nullptr, kWholeGroup) == 0) {
      return 0;
    }
    if (errno != EINVAL && errno != ENOSYS) return errno;
  }
  if (group.start == 0 && reaped_) return ESRCH;
  if (group.start != 0) {
    const auto start = start_of(group.id);
    if (!start && is_shortage(errno)) return errno;
    if (start != group.start) return ESRCH;
  }
  return ::kill(-group.id, number) == 0 ? 0 : errno;
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
