// The clock that local deadlines are counted on.
//
// CLOCK_BOOTTIME counts suspend, which std::chrono::steady_clock does not, and ignores changes of
// the wall clock.
#pragma once

#include <chrono>
#include <cstdint>

namespace holdfast::base {

struct BootClock {
  using rep = std::int64_t;
  using period = std::nano;
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;

  // As this process' time namespace shows it: good for its own deadlines only.
  static time_point now() noexcept;
};
using BootInstant = BootClock::time_point;

// Boot time without the offset of a time namespace: the same for all processes of one kernel.
BootInstant host_boot_now() noexcept;

std::chrono::system_clock::time_point wall_now() noexcept;

// By how much the wall clock is ahead of boot time. It changes when somebody sets the clock, or
// when the machine stood still without boot time noticing (a paused virtual machine).
std::chrono::nanoseconds wall_minus_boot() noexcept;

}  // namespace holdfast::base
