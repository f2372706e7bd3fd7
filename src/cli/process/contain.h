// Keeps the processes of a command together. In every case they descend from the guard.
//
//   Contain::kTree    nothing more: the guard is their subreaper, and looks for them in /proc
//   Contain::kPidns   a pid namespace of their own: when its first process dies, the kernel ends
//   all Contain::kCgroup  a cgroup (version 2) of their own, which the kernel ends as one
//
// Guarantee: with kPidns nothing of the command outlives guard and keeper, also when both are
// killed at once, or when it runs as another user. With kCgroup one write ends all of it, however
// fast it forks and whoever it runs as; not when guard and keeper are both killed.
// Not guaranteed, by any: that processes end which another program starts for the command (docker
// run, systemd-run, at, cron, ssh to this host). They are no descendants, and live on.
//
// Thread-safety: one thread; check_containment() and enter_pid_namespace() fork.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "holdfast/result.h"
#include "src/cli/options/options.h"
#include "src/cli/process/boottime.h"

namespace holdfast::cli {

// A cgroup of one run. The folder goes with the object that made it, once nobody is in it.
class Cgroup {
 public:
  // Below the one this process is in. Errors: kInvalidArgument, with what to do.
  static Result<Cgroup> make();
  Cgroup(Cgroup&& other) noexcept;
  Cgroup& operator=(Cgroup&&) = delete;
  ~Cgroup();

  const std::string& path() const { return path_; }

 private:
  explicit Cgroup(std::string path) : path_(std::move(path)) {}

  std::string path_;
  pid_t maker_ = 0;  // Forked children have a copy.
};

// Acts on the cgroup at `path`, which may be gone. Any process may call it.
[[nodiscard]] int enter_cgroup(const std::string& path);  // 0 or an errno.
void kill_cgroup(const std::string& path);
void remove_cgroup(const std::string& path);  // Nothing, while somebody is in it.
bool is_in_use(const std::string& path);

// Whether this process may have a pid namespace, as root or by a user namespace. Forks to find out.
// Errors: kInvalidArgument, with what to do.
Result<void> check_pid_namespace();

struct Rest {
  bool wait = false;   // For what outlives the command; else it is sent SIGTERM and
  Nanos kill_after{};  // then SIGKILL.
};

// In the process that is to become the command: returns, with 0, in a grandchild of it that has
// done so in a pid namespace. This process becomes its stand-in: it passes signals on, and ends as
// the command does. An errno: there is no namespace, and nobody was forked.
[[nodiscard]] int enter_pid_namespace(Rest rest);

}  // namespace holdfast::cli
