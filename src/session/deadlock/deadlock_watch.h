// Checks the waits of one client that name their owner: can they ever end?
//
// It reads the queues once a second while such a wait lasts, beginning when the first has lasted a
// second. Reading takes a twentieth of the time at most, so slow stores are read less often. If two
// readings in a row agree, the wait is told (deadlock.h).
//
// Thread-safety: on_tick() and begin() under the core's mutex; answers come on the loop.
// Ownership: the core owns it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "holdfast/lock_info.h"
#include "holdfast/result.h"
#include "src/session/acquisition.h"
#include "src/session/deadline.h"

namespace holdfast::session {

class Acquiring;

class DeadlockWatch : public std::enable_shared_from_this<DeadlockWatch> {
 public:
  // A longer list proves nothing: a lock that is left out might untie the circle.
  static constexpr std::size_t kMostLocks = 10'000;

  explicit DeadlockWatch(Acquiring& core) : core_(core) {}

  // A wait begins. Says when it wants to be called.
  BootInstant begin(const std::shared_ptr<Acquisition>& acquisition, BootInstant now);
  BootInstant on_tick(BootInstant now);

 private:
  struct Wait {
    std::weak_ptr<Acquisition> acquisition;
    BootInstant since;
    std::vector<std::string> edges;  // The last reading's.
  };
  struct Question {
    std::shared_ptr<Acquisition> acquisition;
    std::string owner;
  };

  void on_list(BootInstant asked_at, Result<std::vector<LockInfo>> found);
  std::vector<Question> questions();
  void answer(const Question& question, std::vector<std::string> edges, const std::string& cycle);

  Acquiring& core_;
  std::vector<Wait> waits_;  // Guarded by the core's mutex, like the rest.
  bool asking_ = false;
  BootInstant next_ = BootInstant::max();
};

}  // namespace holdfast::session
