// A clock that moves only when it is told to, and by the sleeps of who waits. For tests.
#pragma once

#include <algorithm>

#include "holdfast/ids/snowflake.h"

namespace holdfast::ids {

inline constexpr std::chrono::milliseconds kNow{1'800'000'000'000};

class FakeClock final : public IdClock {
 public:
  explicit FakeClock(std::chrono::milliseconds unix_time) : wall_(unix_time) {}

  Reading read() override { return {wall_, boot_}; }
  // Every change is a new tick.
  std::int64_t tick() override { return tick_; }
  void sleep(std::chrono::nanoseconds time) override {
    slept += time;
    pass(std::max(time, std::chrono::nanoseconds(1)));
  }

  // Both clocks.
  void pass(std::chrono::nanoseconds time) {
    wall_ += time;
    boot_ += time;
    ++tick_;
  }
  // The wall clock is set.
  void step(std::chrono::nanoseconds by) {
    wall_ += by;
    ++tick_;
  }
  std::chrono::nanoseconds wall() const { return wall_; }
  std::chrono::nanoseconds boot() const { return boot_; }

  std::chrono::nanoseconds slept{};

 private:
  std::chrono::nanoseconds wall_;
  std::chrono::nanoseconds boot_ = std::chrono::hours(1);
  std::int64_t tick_ = 1;
};

}  // namespace holdfast::ids
