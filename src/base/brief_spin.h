// Looks for an answer again and again for a short time, before a thread goes to sleep for it.
//
// A processor with nothing to do takes 30 to 60 us to wake up. A server near by answers sooner, and
// while its client looks on, its own processor does not fall asleep either
// (docs/design/0058-brief-spin.md has the figures). The thread yields between looks, so that other
// threads with work to do go first.
//
// Where answers take longer, looking is given up: then one wait in 65 tries it again.
// Not guaranteed: a bound on how long until() takes. On a busy machine each yield may last longer.
// Thread-safety: one thread at a time.
#pragma once

#include <sched.h>

#include <chrono>

namespace holdfast::base {

class BriefSpin {
 public:
  // `longest`: a wait looks for so long.
  explicit BriefSpin(std::chrono::microseconds longest = std::chrono::microseconds(100))
      : longest_(longest) {}

  // False: `ready` did not become true in this time, so the caller should sleep.
  template <typename Ready>
  bool until(Ready&& ready) {
    if (waits_left_ > 0) {
      --waits_left_;
      return false;
    }
    const auto end = std::chrono::steady_clock::now() + longest_;
    do {
      if (ready()) {
        pause_ = 0;
        return true;
      }
      ::sched_yield();
    } while (std::chrono::steady_clock::now() < end);
    pause_ = pause_ == 0 ? 1 : pause_ < kLongestPause ? 2 * pause_ : kLongestPause;
    waits_left_ = pause_;
    return false;
  }

 private:
  static constexpr int kLongestPause = 64;

  const std::chrono::microseconds longest_;
  // Waits without a look, after the last failure and now.
  int pause_ = 0;
  int waits_left_ = 0;
};

}  // namespace holdfast::base
