// From which of its writes a session's deadline is counted.
//
// A follower that is cut off from its leader goes on answering reads and pings while the leader
// lets the session expire. So only acknowledged writes count: the leader has seen them. And the
// leader learns of a session's life from its follower only every half tick. So write n proves that
// the session was alive at the write two before it: the time between is at least 3/10 of the
// session (RenewalSchedule (7)), which is at least two ticks long.
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

  // A write that was sent at that time was acknowledged; they come in their order. One that is
  // sooner than the spacing after the last one proves nothing more.
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
  std::array<BootInstant, 3> sent_;  // The last three that count.
  BootInstant newest_;
};

}  // namespace holdfast::stores::zookeeper
