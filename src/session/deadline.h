// How long a lease is sure, counted on this side.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "holdfast/detail/renewal_schedule.h"
#include "src/base/clock.h"
#include "src/machine/types.h"

namespace holdfast::session {

using base::BootInstant;
using machine::Duration;
using Nanos = std::chrono::nanoseconds;

// Longer than that is without end, and would overflow when it is added to an instant.
inline constexpr std::chrono::milliseconds kForever = std::chrono::hours(24) * 36'500;

// The bound on the difference of two clocks. The rate error is relative, between both clocks; the
// margin covers their granularity and the time from a check to its use.
struct ClockBound {
  std::uint32_t rate_error_ppm = 10'000;
  Nanos margin = std::chrono::milliseconds(10);

  // The part of a lease that is not counted on. The margin shrinks with very short leases, so that
  // they keep at least nine tenths of what is left.
  Nanos slack(Duration lease) const {
    const Nanos exact = lease;
    return exact / 1'000'000 * rate_error_ppm + std::min(margin, exact / 10);
  }

  // `sent` is the instant before the request was written that the lease counts from.
  BootInstant safe_deadline(BootInstant sent, Duration lease) const {
    return sent + lease - slack(lease);
  }
};

// The part of a lease at the store that this side counts on: the lock-delay is its end.
inline Duration without_delay(Duration lease, Duration lock_delay) {
  return std::max(lease - lock_delay, Duration::zero());
}

using detail::RenewalSchedule;

}  // namespace holdfast::session
