// How long a lease is sure, counted on this side.
#pragma once

#include <algorithm>
#include <chrono>

#include "holdfast/detail/renewal_schedule.h"
#include "src/base/clock.h"
#include "src/base/clock_bound.h"
#include "src/machine/types.h"

namespace holdfast::session {

using base::BootInstant;
using machine::Duration;
using Nanos = std::chrono::nanoseconds;

// Longer than that is without end, and would overflow when it is added to an instant.
inline constexpr std::chrono::milliseconds kForever = std::chrono::hours(24) * 36'500;

// The part of a lease at the store that this side counts on: the lock-delay is its end.
inline Duration without_delay(Duration lease, Duration lock_delay) {
  return std::max(lease - lock_delay, Duration::zero());
}

using base::ClockBound;
using detail::RenewalSchedule;

}  // namespace holdfast::session
