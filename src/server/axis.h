// A shard's time: the journal's axis, carried on by boot time.
//
// It starts at the newest journaled instant, so neither a reboot nor a host with another uptime
// moves it (rule 40). A stall is not time (rule 53): when a shard that has leases was not driven
// for longer than kLongestStep, the axis leaves the gap out. It then stands still for kGrace, in
// which the waiting renewals are read and applied. Such a shard is driven at least each kPulse.
//
// Guarantee: it never goes back, and never runs faster than boot time. So what lasts until an
// instant of the axis lasts at least as long by the clock of a client.
// Not guaranteed: that it keeps up with boot time.
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <chrono>

#include "src/machine/types.h"

namespace holdfast::server {

class Axis {
 public:
  static constexpr machine::Duration kPulse = std::chrono::milliseconds(100);
  static constexpr machine::Duration kLongestStep = std::chrono::milliseconds(400);
  static constexpr machine::Duration kGrace = std::chrono::milliseconds(100);

  Axis(machine::Instant journaled, machine::Instant boot)
      : now_(journaled), boot_(boot), stands_until_(boot) {}

  // The instant at that boot time. `driven`: each kPulse, because there are leases.
  machine::Instant advance(machine::Instant boot, bool driven) {
    if (boot <= boot_) return now_;
    if (driven && boot - boot_ > kLongestStep) stands_until_ = boot + kGrace;
    const machine::Instant from = std::max(boot_, std::min(boot, stands_until_));
    now_ += boot - from;
    boot_ = boot;
    return now_;
  }

  // The boot time at which to drive it for the sake of a lease that ends at `at`.
  machine::Instant next_drive(machine::Instant at) const {
    const machine::Instant from = std::max(boot_, stands_until_);
    return std::min(boot_ + kPulse, at <= now_ ? from : from + (at - now_));
  }

 private:
  machine::Instant now_;
  machine::Instant boot_;
  machine::Instant stands_until_;  // Boot time.
};

}  // namespace holdfast::server
