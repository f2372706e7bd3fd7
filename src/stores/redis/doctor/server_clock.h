// Notices that somebody has set the server's wall clock, by which its leases end.
//
// Each answer with the server's time bounds the difference between that clock and our boot time. If
// two bounds contradict each other even with the largest allowed clock error, the clock has jumped.
//
// Not guaranteed: that it notices a jump below one second, or a jump and its reverse between two
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

  // `told` is the server's time at an instant between `sent` and `received`. Returns how far the
  // clock has jumped since the last call, ahead or (negative) back; nullopt if it has not.
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
  static constexpr int kRateError = 100;  // One percent.

  std::optional<Seen> last_;
};

}  // namespace holdfast::stores::redis
