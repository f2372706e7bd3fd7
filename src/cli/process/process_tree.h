// Finds and ends all descendants of a process of ours.
//
// Guarantee: a process is signalled only while it is a descendant. It is pinned by a pidfd first
// and looked at again, so a reused process id is never hit.
// Not guaranteed: that one pass sees a process that is being forked meanwhile, or any process while
// descriptors or memory are short. So repeat it until waitpid() says that no child is left, which
// is exact for a subreaper.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/cli/process/boottime.h"

namespace holdfast::cli {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  std::uint64_t start = 0;  // In ticks since boot: with the pid it names one process for good.

  friend bool operator==(const Process&, const Process&) = default;
};

// Children, grandchildren ... of `root`, without itself; zombies are left out. At `until` it
// returns what it has found so far.
std::vector<Process> descendants_of(pid_t root, Nanos until = Nanos::max());

// /proc is there, and tells of our own process ids (not those of a pid namespace around ours).
bool proc_is_ours();

std::optional<pid_t> parent_of(pid_t pid);
// Whether we descend from it.
bool is_ancestor(pid_t pid);
// As Process::start, of a zombie too; nullopt: there is no such process, unless errno tells of a
// shortage.
std::optional<std::uint64_t> start_of(pid_t pid);

// Descriptors or memory are short, so an empty result does not prove that nothing is there.
bool is_shortage(int error);

// Whether the signal is still pending, for example because the process is stopped.
bool has_pending(pid_t pid, int signal);

// The rest of our process group: the other programs of a pipeline, the other jobs of a script.
// Our children and ancestors do not count: those who started us wait for us.
struct GroupPeers {
  bool any = false;
  bool stopped = false;  // One of them is.
};
GroupPeers group_peers();

// As the kernel sees it: a member of our group has a parent in another group of our session. With a
// `run` around us that is its anchor.
bool group_has_parent_in_session();

struct SignalOutcome {
  int signalled = 0;
  std::vector<pid_t> refused;  // It runs as another user.
};

// The processes to spare, and the time to give up.
struct Limits {
  pid_t spare = 0;                   // Its own descendants are signalled.
  std::vector<pid_t> spared_groups;  // They have been signalled as a whole.
  Nanos until = Nanos::max();

  bool leaves_out(const Process& process) const {
    return process.pid == spare || std::find(spared_groups.begin(), spared_groups.end(),
                                             process.group) != spared_groups.end();
  }
};

// Sends `signal` to every descendant of `root`.
SignalOutcome signal_tree(pid_t root, int signal, const Limits& limits = {});

// SIGKILL, repeated at once while new processes keep turning up; does not wait for the dying.
SignalOutcome kill_tree(pid_t root, const Limits& limits = {});

}  // namespace holdfast::cli
