// The clock on which leases are counted: it goes on while the machine sleeps.
#pragma once

#include <chrono>
#include <ctime>

namespace holdfast::cli {

using Nanos = std::chrono::nanoseconds;

inline Nanos boottime_now() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::seconds(now.tv_sec) + Nanos(now.tv_nsec);
}

}  // namespace holdfast::cli
