// Notices that a server's wall clock, by which its leases end, was set.
//
// Each answer that tells the server's time bounds by how much that clock is ahead of our boot time;
// two bounds that cannot both be true, not even with clocks as bad as allowed, are a jump.
//
// Not guaranteed: that a jump smaller than a second is noticed, or one and its reverse between two
// answers. Thread-safety: none; one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "src/base/clock.h"

namespace holdfast::stores::redis {

class ServerClock {
 public:
  using Micros = std::chrono::microseconds;

  // `told`: the server's time, told between `sent` and `received`. By how much the clock has jumped
  // since the last time, ahead or (negative) back; nullopt: it has not.
  std::optional<Micros> observe(base::BootInstant sent, base::BootInstant received, Micros told) {
    const auto since_boot = [](base::BootInstant at) {
      return std::chrono::duration_cast<Micros>(at.time_since_epoch());
    };
    const Seen now{told - since_boot(received), told - since_boot(sent), received};
    const std::optional<Seen> before = std::exchange(last_, now);
    if (!before) return std::nullopt;
    const Micros allowed =
        kGranularity + std::chrono::duration_cast<Micros>(received - before->at) / kRateError;
    if (now.least - before->most > allowed) return now.least - before->most;
    if (before->least - now.most > allowed) return now.most - before->least;
    return std::nullopt;
  }

 private:
  struct Seen {
    Micros least;  // Bounds of the server's time minus our boot time.
    Micros most;
    base::BootInstant at;
  };
  static constexpr Micros kGranularity{1'000'000};
  static constexpr int kRateError = 100;  // One part in a hundred.

  std::optional<Seen> last_;
};

}  // namespace holdfast::stores::redis
