// Decides from which of its writes a session's deadline counts.
//
// A follower that is cut off from its leader still answers reads and pings while the leader lets
// the session expire. So only acknowledged writes count, because the leader has seen them. The
// leader hears from a follower that a session lives only every half tick. So write n proves that
// the session was alive at write n - 2: between the two lies at least 3/10 of the session
// (RenewalSchedule (7)), and a session is at least two ticks long.
//
// Thread-safety: none.
#pragma once

#include <array>
#include <chrono>

#include "holdfast/detail/renewal_schedule.h"
#include "src/base/clock.h"

namespace holdfast::stores::zookeeper {

class SessionDeadline {
 public:
  using BootInstant = base::BootInstant;

  SessionDeadline(BootInstant opened, std::chrono::milliseconds length)
      : length_(length), schedule_(length_), sent_{opened, opened, opened}, newest_(opened) {}

  // Notes the acknowledgement of a write that was sent at that time; call it in the order of the
  // writes. A write too soon after the last counted one adds no proof.
  void acknowledged(BootInstant sent) {
    newest_ = sent;
    if (sent - sent_[2] < schedule_.least_between_confirmations() && sent_[2] != sent_[0]) return;
    sent_ = {sent_[1], sent_[2], sent};
  }

  BootInstant deadline() const { return sent_[0] + length_; }
  BootInstant newest() const { return newest_; }
  std::chrono::nanoseconds spacing() const { return schedule_.confirm_every(); }

 private:
  std::chrono::nanoseconds length_;
  detail::RenewalSchedule schedule_;
  std::array<BootInstant, 3> sent_;  // The last three counted writes.
  BootInstant newest_;
};

}  // namespace holdfast::stores::zookeeper
