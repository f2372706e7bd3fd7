// How long to wait before the next attempt: exponential, with full jitter, so that many clients do
// not come back at once.
//
//   attempt   1      2      3      ...   6 and later
//   at most   50 ms  100 ms 200 ms ...   2 s
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace holdfast::stores::redis {

class Backoff {
 public:
  // `random`: any 64 bits.
  std::chrono::nanoseconds next(std::uint64_t random) noexcept {
    const auto ceiling = std::min<std::chrono::nanoseconds>(kFirst * (1 << step_), kLongest);
    step_ = std::min(step_ + 1, 6);
    return std::chrono::nanoseconds(
        static_cast<std::int64_t>(random % (static_cast<std::uint64_t>(ceiling.count()) + 1)));
  }
  void reset() noexcept { step_ = 0; }

 private:
  static constexpr std::chrono::milliseconds kFirst{50};
  static constexpr std::chrono::milliseconds kLongest{2000};

  int step_ = 0;
};

}  // namespace holdfast::stores::redis
