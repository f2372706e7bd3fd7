// The inequalities of RenewalSchedule's header, over a sweep of lengths from 100 ms to 24 h.
#include "holdfast/detail/renewal_schedule.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include <gtest/gtest.h>

#include "src/session/deadline.h"

namespace holdfast::session {
namespace {

using namespace std::chrono_literals;

// `holds` is asked for each length, with what a holder counts on of it.
void for_each_length(const std::function<bool(const RenewalSchedule&, Nanos, Nanos)>& holds) {
  for (Nanos length = 100ms; length <= 24h; length += std::max<Nanos>(length / 97, 1ms)) {
    const Nanos rounded = std::chrono::floor<Duration>(length);
    const Nanos sure = rounded - ClockBound().slack(std::chrono::floor<Duration>(length));
    ASSERT_TRUE(holds(RenewalSchedule(rounded), rounded, sure))
        << "L = " << rounded.count() << " ns";
  }
}

TEST(RenewalScheduleTest, AFailedRenewalLeavesTimeForAnotherOne) {
  for_each_length([](const RenewalSchedule& schedule, Nanos, Nanos sure) {
    return schedule.renew_after() + schedule.request_time() + schedule.retry_after() < sure;
  });
}

TEST(RenewalScheduleTest, EarlyRenewalsAreANinthMoreAtMost) {
  for_each_length([](const RenewalSchedule& schedule, Nanos, Nanos) {
    return (schedule.renew_after() - schedule.early_in_company()) * 10 + 10ns >=
           schedule.renew_after() * 9;
  });
}

TEST(RenewalScheduleTest, ARenewalThatWaitedForABatchHasAQuarterOfTheLease) {
  for_each_length([](const RenewalSchedule& schedule, Nanos length, Nanos sure) {
    return sure - schedule.renew_after() - schedule.batch_wait() > length / 4;
  });
}

TEST(RenewalScheduleTest, APostponedRenewalIsRepeatedFourTimes) {
  for_each_length([](const RenewalSchedule& schedule, Nanos, Nanos sure) {
    return schedule.renew_after() <= schedule.latest_renewal() &&
           schedule.latest_renewal() + 4 * schedule.retry_after() < sure;
  });
}

TEST(RenewalScheduleTest, TwoTriesToKeepALeadAreOverInTime) {
  for_each_length([](const RenewalSchedule& schedule, Nanos, Nanos sure) {
    return 2 * (schedule.lead_every() + schedule.lead_look()) + schedule.lead_every() < sure;
  });
}

TEST(RenewalScheduleTest, OneHeartbeatOfAPlaceBesideALockMayBeLost) {
  for_each_length([](const RenewalSchedule& schedule, Nanos, Nanos sure) {
    return 3 * schedule.beat_every() < sure;
  });
}

TEST(RenewalScheduleTest, OneHeartbeatMayBeLost) {
  for_each_length([](const RenewalSchedule&, Nanos length, Nanos) {
    const auto waiting = RenewalSchedule::waiter_lease(std::chrono::floor<Duration>(length));
    return waiting <= length &&
           2 * RenewalSchedule(waiting).heartbeat() < waiting - ClockBound().slack(waiting);
  });
}

// The reserve is 10 ms at least: more than a tenth below 100 ms, which no lease is.
TEST(RenewalScheduleTest, ARenewalIsSentBeforeACommandIsEnded) {
  for_each_length([](const RenewalSchedule& schedule, Nanos, Nanos sure) {
    const Nanos ends_at = sure - schedule.longest_kill_after() - schedule.kill_reserve() -
                          schedule.longest_kill_effort();
    return schedule.default_kill_after() <= schedule.longest_kill_after() &&
           schedule.renew_after() < ends_at;
  });
}

TEST(RenewalScheduleTest, ASessionThatIsRenewedEveryThirdOutlastsItsTries) {
  for_each_length([](const RenewalSchedule& schedule, Nanos length, Nanos sure) {
    const Nanos due = schedule.renew_after();
    return schedule.left_between_renewals() == length - due &&
           due + 2 * schedule.short_try_time() < schedule.left_between_renewals() &&
           due + 2 * schedule.try_time() < sure;
  });
}

TEST(RenewalScheduleTest, AConfirmedSessionLeavesItsSafePart) {
  for_each_length([](const RenewalSchedule& schedule, Nanos length, Nanos) {
    return length - 3 * schedule.confirm_every() >= schedule.safe_part() &&
           2 * schedule.least_between_confirmations() + 2ns >= length * 3 / 10;
  });
}

// Each store leaves at least the safe part of a session, and min_left relies on that.
TEST(RenewalScheduleTest, NoSessionLeavesLessThanItsSafePart) {
  for_each_length([](const RenewalSchedule& schedule, Nanos, Nanos) {
    return schedule.safe_part() <= schedule.left_between_renewals() &&
           schedule.safe_part() >= schedule.latest_renewal();
  });
}

}  // namespace
}  // namespace holdfast::session
