// From which of its writes a session's deadline is counted.
//
// A follower that is cut off from its leader goes on answering reads and pings while the leader
// lets the session expire. So only acknowledged writes count: the leader has seen them. And the
// leader learns of a session's life from its follower only now and then (every half tick), so what
// write n proves is that the session lived by the one two before it: in the time between, which is
// at least a third of the session, the follower's word has come.
//
// Thread-safety: none.
#pragma once

#include <array>
#include <chrono>

#include "src/base/clock.h"

namespace holdfast::stores::zookeeper {

class SessionDeadline {
 public:
  using BootInstant = base::BootInstant;

  // Six in each session.
  SessionDeadline(BootInstant opened, std::chrono::milliseconds length)
      : length_(length), spacing_(length_ / 6), sent_{opened, opened, opened}, newest_(opened) {}

  // A write that was sent at that time was acknowledged; they come in their order. One that is
  // sooner than the spacing after the last one proves nothing more.
  void acknowledged(BootInstant sent) {
    newest_ = sent;
    if (sent - sent_[2] < spacing_ * 9 / 10 && sent_[2] != sent_[0]) return;
    sent_ = {sent_[1], sent_[2], sent};
  }

  BootInstant deadline() const { return sent_[0] + length_; }
  BootInstant newest() const { return newest_; }
  std::chrono::nanoseconds spacing() const { return spacing_; }

 private:
  std::chrono::nanoseconds length_;
  std::chrono::nanoseconds spacing_;
  std::array<BootInstant, 3> sent_;  // The last three that count.
  BootInstant newest_;
};

}  // namespace holdfast::stores::zookeeper
