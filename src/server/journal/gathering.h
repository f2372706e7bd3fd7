// When the next batch of a shared journal leaves: etcd needs little more for a batch of many
// changes than for one of few, so a batch waits a little for callers that are about to ask.
//
// The callers whose answers leave at the end of a commit ask again soon, and the ones that came
// meanwhile wait already. A batch that left at once would have the second group only, and the two
// groups would take turns for ever: twice as many commits for the same changes.
//
// Guarantee: a batch waits for at most as long as the last commit took, and kLongest. It waits for
// nobody when fewer than kCrowd callers are known.
// Not guaranteed: that the expected callers come.
//
// Thread-safety: none. Time: the caller's, boot time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "src/base/clock.h"

namespace holdfast::server {

class Gathering {
 public:
  static constexpr std::chrono::milliseconds kLongest{5};
  static constexpr std::size_t kCrowd = 16;

  // A commit has taken from `begin` to `now`. It answers so many callers, and so many wait for the
  // next one.
  void committed(base::BootInstant begin, base::BootInstant now, std::size_t answered,
                 std::size_t waiting) {
    const std::size_t all = answered + waiting;
    expected_ = all < kCrowd ? 0 : all - all / 16;
    until_ = now + std::min<base::BootClock::duration>(now - begin, kLongest);
  }

  // Whether the next batch, for which so many callers wait, stays for more.
  bool goes_on(base::BootInstant now, std::size_t waiting) const {
    return waiting < expected_ && now < until_;
  }
  base::BootInstant until() const { return until_; }

 private:
  std::size_t expected_ = 0;
  base::BootInstant until_{};
};

}  // namespace holdfast::server
