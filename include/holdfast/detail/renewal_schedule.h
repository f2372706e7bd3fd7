// When leases and store sessions are renewed: the only place with these numbers, and the proof that
// they fit together. Everything that depends on how often a lease is renewed asks here.
//
// L is what one renewal grants: the length of a lease, of a waiter's lease or of a store session.
// All times count from the send of the request that granted it. S = L - slack is the part that its
// holder counts on (src/base/clock_bound.h). With the default bound of clock errors,
// and from 100 ms on, slack is 11 % of L at most: S >= 0.89 L.
//
// (1) A renewal is due at L/3 and may take L/3. After it has failed there is time for another one:
//     L/3 + L/3 + L/12 = 0.75 L < S.
// (2) A renewal that waits for an earlier batch waits for L/4 at most. A request over a new
//     connection then has a quarter of the lease: S - L/3 - L/4 >= 0.306 L > L/4.
// (3) A store that confirms at intervals may postpone a renewal to L/2. Even so a failed renewal is
//     repeated at least four times: L/2 + 4 * L/12 = 0.833 L < S.
// (4) A waiter sends a heartbeat every third of its lease. One of them may be lost: 2 * L/3 < S.
// (5) `holdfast run`: SIGTERM comes at S - kill_after - reserve - effort, which is at least
//     0.89 L - L/3 - L/10 - L/10 = 0.356 L. The renewal that is due at L/3 is sent before that.
//     Each renewal must leave L at least: Guarantees::least_renewal.
// (6) A session that is renewed every third leaves 2L/3 between renewals. While that is left, tries
//     of L/8 at two servers are over: L/3 + 2 * L/8 < 2L/3. Two tries of L/4 are over before the
//     session ends: L/3 + 2 * L/4 < S.
// (7) A session is confirmed by a write every L/6, and its deadline counts from the second write
//     before the newest one. This leaves L/2: at the next answer that write is 3 * L/6 old. Writes
//     that count are at least 9/10 of L/6 apart, so those two lie at least 3L/10 apart.
// (8) A renewal may leave early with a batch that leaves anyway: by L/30 at most. So there are at
//     most a ninth more renewals, and none is later.
//
// (9) A lease that others depend on, such as the lead of a service or the authority of a chain, is
//     renewed every L/5. Its keeper may look L/8 late, and a request takes L/5 at most. Two
//     tries are over in time: 2 * (L/5 + L/8) + L/5 = 0.85 L < S.
// (10) A place that is kept beside a lock of another store has a heartbeat every L/4, which takes
//     L/4 at most. One may be lost: 3 * L/4 < S.
//
// Thread-safety: a value. Time: exact to a nanosecond, rounded down.
#pragma once

#include <algorithm>
#include <chrono>

#include "holdfast/export.h"

namespace holdfast::detail {

class RenewalSchedule {
 public:
  using Nanos = std::chrono::nanoseconds;

  constexpr explicit RenewalSchedule(Nanos lease) : lease_(lease) {}

  // The lease of a ticket while it waits. A dead waiter blocks the queue for that time.
  template <typename Time>
  static constexpr Time waiter_lease(Time ttl) {
    return std::min<Time>(ttl, std::chrono::seconds(5));
  }

  // From the send of one renewal to the send of the next one.
  constexpr Nanos renew_after() const { return lease_ / 3; }
  constexpr Nanos latest_renewal() const { return lease_ / 2; }
  constexpr Nanos retry_after() const { return lease_ / 12; }
  constexpr Nanos early_in_company() const { return lease_ / 30; }
  // The longest time of one renewal, and its longest wait for the batch before it.
  constexpr Nanos request_time() const { return lease_ / 3; }
  constexpr Nanos batch_wait() const { return lease_ / 4; }

  // For a waiter's lease. A missed notification costs at most a second.
  constexpr Nanos heartbeat() const { return std::min<Nanos>(lease_ / 3, std::chrono::seconds(1)); }

  // For a session that is renewed every third.
  constexpr Nanos left_between_renewals() const { return lease_ - renew_after(); }
  constexpr Nanos try_time() const { return lease_ / 4; }
  constexpr Nanos short_try_time() const { return lease_ / 8; }

  // For a session that is confirmed by writes.
  constexpr Nanos confirm_every() const { return lease_ / 6; }
  constexpr Nanos least_between_confirmations() const { return confirm_every() * 9 / 10; }
  // Every session leaves this much between confirmations, however its store keeps it.
  constexpr Nanos safe_part() const { return lease_ / 2; }

  // For a lease that others depend on. Each request takes as long at most.
  constexpr Nanos lead_every() const { return lease_ / 5; }
  constexpr Nanos lead_look() const { return lease_ / 8; }

  // For a place beside another store's lock. Each heartbeat takes as long at most.
  constexpr Nanos beat_every() const { return lease_ / 4; }

  // For a lease that a command runs under: from SIGTERM to SIGKILL, and from there to the end.
  constexpr Nanos longest_kill_after() const { return lease_ / 3; }
  constexpr Nanos default_kill_after() const {
    return std::min<Nanos>(lease_ / 5, std::chrono::seconds(5));
  }
  constexpr Nanos kill_reserve() const {
    return std::clamp<Nanos>(lease_ / 10, std::chrono::milliseconds(10), std::chrono::seconds(1));
  }
  constexpr Nanos longest_kill_effort() const { return lease_ / 10; }

 private:
  Nanos lease_;
};

}  // namespace holdfast::detail
