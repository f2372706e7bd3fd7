// The terminal: whose group is in front, and giving it to the command and back.
#pragma once

#include <sys/types.h>

#include "src/cli/process/fd.h"

namespace holdfast::cli {

// Needs SIGTTOU ignored (signals.h). Without a controlling terminal every call does nothing.
// No shell with job control stands above us: nobody would continue us, should we be stopped.
bool own_group_is_orphaned();

class Terminal {
 public:
  Terminal();

  bool present() const { return static_cast<bool>(fd_); }
  // Our own group is the one in front.
  bool ours() const;
  // Puts the command's group in front, if ours is there now. true: it is in front.
  bool give_to(pid_t group);
  // It is in front, as far as we know.
  bool gave() const { return given_to_ != 0; }
  // Puts our group back in front, if it was given away and the shell has not taken it meanwhile.
  void take_back();

 private:
  Fd fd_;
  pid_t given_to_ = 0;
};

// A process whose only purpose is to be in the command's group with us as its parent. The guard is
// in another session and does not count for the kernel. Without a parent in the session the group
// would be "orphaned": Ctrl-Z would not work, and reading in the background would fail instead of
// stopping. The anchor holds no descriptors, ignores signals and dies with us.
class GroupAnchor {
 public:
  // Before any thread is made. Without a terminal nothing is needed and nothing is started.
  void start();
  void join(pid_t group) const;
  void stop();
  pid_t pid() const { return pid_; }

  // A Ctrl-Z to the group stays pending with the anchor, which takes no signals, until the next
  // SIGCONT. So it is still known when the SIGCONT that lets the command go on with the terminal
  // has discarded the command's own.
  void forget_stops() const;
  bool was_asked_to_stop() const;

 private:
  pid_t pid_ = 0;
};

}  // namespace holdfast::cli
