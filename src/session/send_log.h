// When this client sent which request about a ticket.
//
// A store's answer names the request that its lease counts from. Only the newest few can still
// matter: an older one's lease is over by the time eight more were sent.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "src/base/clock.h"

namespace holdfast::session {

class SendLog {
 public:
  void clear() { *this = SendLog(); }

  // The number of the request that is about to be sent: 0, 1, 2 ...
  std::uint64_t add(base::BootInstant now) {
    sent_[next_ % kKept] = now;
    return next_++;
  }

  std::optional<base::BootInstant> sent_at(std::uint64_t seq) const {
    if (seq >= next_ || seq + kKept < next_) return std::nullopt;
    return sent_[seq % kKept];
  }

  std::uint64_t next() const { return next_; }

  // A log whose first request gets the number `seq`: for a lease that another process began.
  // Requests of that process count as sent at boot, so no deadline is ever counted from them.
  static SendLog starting_at(std::uint64_t seq) {
    SendLog log;
    log.next_ = seq;
    return log;
  }

 private:
  // A lease or a place in the queue outlasts three requests, and those that failed in between.
  static constexpr std::uint64_t kKept = 8;
  std::array<base::BootInstant, kKept> sent_{};
  std::uint64_t next_ = 0;
};

}  // namespace holdfast::session
