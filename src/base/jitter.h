// Random pauses, so that clients that failed together do not come back together.
//
// Thread-safety: none.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>

#include "src/base/random.h"

namespace holdfast::base {

class Jitter {
 public:
  // Anything from nothing to `most`.
  std::chrono::microseconds up_to(std::chrono::microseconds most) {
    return std::chrono::microseconds(
        std::uniform_int_distribution<std::int64_t>(0, most.count())(random_));
  }
  // A time, give or take a quarter.
  std::chrono::microseconds around(std::chrono::microseconds time) {
    return time * 3 / 4 + up_to(time / 2);
  }
  // Between half of a time and all of it.
  std::chrono::microseconds upper_half(std::chrono::microseconds time) {
    return time / 2 + up_to(time / 2);
  }
  // The pause before try number `tries` after a lost race: short, since races are.
  std::chrono::microseconds after_race(int tries) {
    return up_to(std::chrono::microseconds(500 << (tries < 6 ? tries : 6)));
  }

 private:
  std::minstd_rand random_{static_cast<std::minstd_rand::result_type>(random_128().low)};
};

}  // namespace holdfast::base
