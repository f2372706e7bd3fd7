// The bound on the difference of two clocks: the store's, which ends a lease, and this host's,
// which counts on it.
//
// Thread-safety: a value. Time: exact to a nanosecond.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "src/base/clock.h"

namespace holdfast::base {

// The rate error is relative, between both clocks; the margin covers their granularity and the time
// from a check to its use.
struct ClockBound {
  std::uint32_t rate_error_ppm = 10'000;
  std::chrono::nanoseconds margin = std::chrono::milliseconds(10);

  // The part of a lease that is not counted on. The margin shrinks with very short leases, so that
  // they keep at least nine tenths of what is left.
  std::chrono::nanoseconds slack(std::chrono::nanoseconds lease) const {
    return lease / 1'000'000 * rate_error_ppm + std::min(margin, lease / 10);
  }

  // `sent` is the instant before the request was written that the lease counts from.
  BootInstant safe_deadline(BootInstant sent, std::chrono::nanoseconds lease) const {
    return sent + lease - slack(lease);
  }
};

}  // namespace holdfast::base
