// Signals as data: they are blocked in every thread and read from a descriptor.
#pragma once

#include <csignal>
#include <optional>
#include <string>

#include "src/cli/process/fd.h"

namespace holdfast::cli {

// Blocks every signal that can be handled, before any thread is made; SIGPIPE and SIGTTOU are
// ignored. A child process gets the state of before back with restore().
//
// Thread-safety: construct in the first thread, once. Signals that were ignored when the program
// started (nohup, a background job of a script) stay ignored and never show up.
class Signals {
 public:
  Signals();

  int fd() const { return fd_.get(); }
  // The next signal that has come, without waiting.
  std::optional<int> next() const;
  // The next one that ends a program by default. One that stops a program stops this one, which
  // then goes on; all others are passed over.
  std::optional<int> next_ending() const;
  // Throws away a signal that has come.
  void discard(int signal) const;
  // It has come, and next() will tell of it.
  static bool has_come(int signal);

  // For the child, between fork and exec (async-signal-safe).
  void restore() const;

 private:
  sigset_t before_{};
  struct sigaction pipe_before_ {};
  struct sigaction ttou_before_ {};
  Fd fd_;
};

// "TERM", "USR1", "RTMIN+2", "37"
std::string signal_name(int signal);

// The signal's effect on a process that does nothing about it.
enum class SignalDefault { kEnds, kStops, kNothing };
SignalDefault default_of(int signal);

// Signals that a terminal sends to a whole group, and SIGTERM, go to the command's whole group;
// the others are meant for the command itself.
bool is_for_group(int signal);

// Stops this process as Ctrl-Z would; returns when it is continued.
void stop_self();

}  // namespace holdfast::cli
