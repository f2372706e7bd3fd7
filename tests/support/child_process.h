// A program that runs for a test: started, stopped, woken, killed, waited for.
//
// Guarantee: the program dies with the test process, however that one ends (parent-death signal),
// whichever thread started it. It leads a process group, which is signalled, stopped and ended as a
// whole: its children do not outlive it (they are killed when its end is seen). Descendants that
// lead groups of their own are stopped, woken and killed with it. It inherits no file descriptor
// but the standard three, and no blocked signal.
// Not guaranteed: that grandchildren of a SIGKILLed test die, or that a child which left the group
// ends with a program that ends by itself.
//
// Thread-safety: one thread at a time.
// Blocking: each call ends when the program has been seen in its new state; bounded by kPatience.
// Errors: std::runtime_error.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace holdfast::support {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr milliseconds kPatience = 20s;  // Far above anything that is asserted.

struct Command {
  std::vector<std::string> arguments{};  // The program first: a path, or a name to look up in PATH.
  std::vector<std::string> environment{};  // NAME=value, on top of the test's own.
  std::string output{};                    // File for stdout and stderr; empty: /dev/null.
  int network = -1;  // A handle of the network namespace to run in; -1: the test's own.
};

class ChildProcess {
 public:
  explicit ChildProcess(const Command& command);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  bool running();

  // The exit code, or minus the signal; nothing: still running after `limit`.
  std::optional<int> wait(milliseconds limit = kPatience);

  void signal(int number);
  void pause();   // SIGSTOP
  void resume();  // SIGCONT
  int kill9();
  // SIGTERM; throws when one of the group is still there after `limit`.
  int terminate(milliseconds limit = kPatience);

 private:
  bool group_lives() const;
  std::vector<pid_t> descendants() const;
  bool ended(int options) const;  // Seen, and not reaped.
  bool await_end(milliseconds limit) const;
  void await_change(int change, const std::string& instead);
  bool reap(int options);

  pid_t pid_ = -1;
  int pid_fd_ = -1;
  std::optional<int> status_;
};

// The path of a program: as it is when there is a slash in it, otherwise from PATH.
std::optional<std::string> find_program(const std::string& name);

// Returns the environment's value for it, or else `usual`.
std::string chosen_or(const char* variable, const std::string& usual);

// Runs it to its end; throws, with what it printed, unless it ends with 0.
std::string run(const std::vector<std::string>& arguments);

}  // namespace holdfast::support
