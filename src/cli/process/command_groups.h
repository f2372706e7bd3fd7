// The process groups of a command and its descendants. One call reaches a whole group, however
// large it is and however busy the machine.
//
// Guarantee: only a group whose leader is or was a descendant is signalled. A pidfd pins the
// leader. Before Linux 6.9 it cannot signal a group, and sometimes few descriptors are left. Then
// the leader's start time counts, or the caller's word that it is not reaped.
// Not guaranteed: that every descendant is in one of them, or that all of them have been found.
// Thread-safety: none.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "src/cli/process/boottime.h"
#include "src/cli/process/fd.h"

namespace holdfast::cli {

class CommandGroups {
 public:
  // A child of ours that leads a group of its own.
  void add_command(pid_t command);
  void command_is_reaped() { reaped_ = true; }

  // Looks for groups below `root`, for `most` at the longest. Not more often than is cheap.
  void look(pid_t root, Nanos most);
  bool have_looked() const { return looked_at_ > Nanos::zero(); }
  // How long it lately took to look at everything, and to be given the processor.
  Nanos effort() const { return effort_; }

  // Neither allocates nor reads /proc where the kernel can do without.
  void signal(int number) const;

  std::vector<pid_t> ids() const;
  // The descriptor that pins the command; -1: none.
  int command_pin() const { return groups_.empty() ? -1 : groups_.front().pin.get(); }

 private:
  struct Group {
    pid_t id = 0;
    std::uint64_t start = 0;  // The leader's; 0: the command, a child of ours.
    Fd pin;
  };
  void add_found(pid_t leader, std::uint64_t start);
  int signal_one(const Group& group, int number) const;

  std::vector<Group> groups_;
  bool reaped_ = false;
  Nanos looked_at_{};
  Nanos took_{};
  Nanos effort_{};
  Nanos waited_{};  // In total, for the processor.
};

}  // namespace holdfast::cli
