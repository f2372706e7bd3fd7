// The waits of the standard's vocabulary as this library counts them.
#pragma once

#include <chrono>

#include "holdfast/export.h"

namespace holdfast::detail {

// In milliseconds, rounded up; what would not fit is as long as without end.
template <typename Rep, typename Period>
std::chrono::milliseconds bounded_wait(const std::chrono::duration<Rep, Period>& wait) {
  using Seconds = std::chrono::duration<double>;
  constexpr std::chrono::milliseconds kForever = std::chrono::hours(24) * 36'500;
  if (Seconds(wait) <= Seconds::zero()) return std::chrono::milliseconds::zero();
  if (!(Seconds(wait) < Seconds(kForever))) return kForever;
  return std::chrono::ceil<std::chrono::milliseconds>(wait);
}

}  // namespace holdfast::detail
