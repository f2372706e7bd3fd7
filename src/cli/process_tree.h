// Finding and ending everything that descends from a process of ours.
//
// Guarantee: a process is signalled only while it is a descendant (it is pinned by a pidfd first,
// then looked at again), so a reused process id is never hit.
// Not guaranteed: that one pass sees a process that is being forked meanwhile: repeat until
// waitpid() says that no child is left, which is exact for a subreaper.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace holdfast::cli {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  std::uint64_t start = 0;  // In ticks since boot: with the pid it names one process for good.

  friend bool operator==(const Process&, const Process&) = default;
};

// Children, grandchildren ... of `root`, without itself; zombies are left out.
std::vector<Process> descendants_of(pid_t root);

std::optional<pid_t> parent_of(pid_t pid);

// The signal was sent to the process, which has not come to take it (it is stopped, say).
bool has_pending(pid_t pid, int signal);

// The rest of our process group: the other programs of a pipeline, the other jobs of a script.
// Our children and ancestors do not count: those who started us wait for us.
struct GroupPeers {
  bool any = false;
  bool stopped = false;  // One of them is.
};
GroupPeers group_peers();

struct SignalOutcome {
  int signalled = 0;
  std::vector<pid_t> refused;  // It runs as another user.
};

// Sends `signal` to every descendant of `root` but `spare`, whose own descendants count.
SignalOutcome signal_tree(pid_t root, int signal, pid_t spare = 0);

// SIGKILL, repeated at once while new processes keep turning up; does not wait for the dying.
SignalOutcome kill_tree(pid_t root, pid_t spare = 0);

}  // namespace holdfast::cli
