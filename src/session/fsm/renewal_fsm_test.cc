#include "src/session/fsm/renewal_fsm.h"

#include <gtest/gtest.h>

namespace holdfast::session {
namespace {

using namespace std::chrono_literals;
using State = RenewalFsm::State;
using Step = RenewalFsm::Step;

BootInstant at(Nanos since_start) { return BootInstant(1h) + since_start; }

port::AcquisitionState held(std::uint64_t seq, Duration lease) {
  port::AcquisitionState state;
  state.status = port::AcquisitionStatus::kHeld;
  state.seq = seq;
  state.lease = lease;
  return state;
}

port::AcquisitionState gone() {
  port::AcquisitionState state;
  state.status = port::AcquisitionStatus::kGone;
  return state;
}

Error unavailable() { return {Errc::kUnavailable, "no route"}; }

// One percent of the lease, and ten milliseconds.
constexpr Nanos kSlackOf30s = 310ms;

RenewalFsm::Terms terms(Duration ttl = 30s) {
  RenewalFsm::Terms out;
  out.ttl = ttl;
  return out;
}

SendLog log_with_acquire_at(BootInstant sent) {
  SendLog log;
  log.add(sent);
  return log;
}

// Granted for 30 s; the request went out at 0 s and was answered at 1 s.
RenewalFsm granted(const RenewalFsm::Terms& how = terms()) {
  return RenewalFsm(at(1s), how, held(0, how.ttl), log_with_acquire_at(at(0s)));
}

TEST(RenewalFsmTest, TheDeadlineCountsFromTheSendOfTheRequest) {
  EXPECT_EQ(granted().deadline(), at(30s) - kSlackOf30s);
}

TEST(RenewalFsmTest, ALockDelayIsNoPartOfTheLeaseThatIsCountedOn) {
  RenewalFsm::Terms how = terms();
  how.lock_delay = 60s;
  RenewalFsm renewal(at(1s), how, held(0, 90s), log_with_acquire_at(at(0s)));
  EXPECT_EQ(renewal.deadline(), at(30s) - kSlackOf30s);
  EXPECT_EQ(renewal.wake_at(), at(10s));
  ASSERT_EQ(renewal.on_tick(at(10s)).step, Step::kSend);
  renewal.on_reply(at(11s), held(1, 90s));
  EXPECT_EQ(renewal.deadline(), at(40s) - kSlackOf30s);
  EXPECT_EQ(renewal.wake_at(), at(20s));
}

TEST(RenewalFsmTest, ARenewalThatIsNearlyDueGoesWithOthers) {
  RenewalFsm renewal = granted();
  EXPECT_FALSE(renewal.likes_company(at(9s) - 1ns));
  EXPECT_TRUE(renewal.likes_company(at(9s)));
  EXPECT_EQ(renewal.wake_at(), at(10s));
  EXPECT_EQ(renewal.on_doubt(at(9s)).step, Step::kSend);
  EXPECT_FALSE(renewal.likes_company(at(9s))) << "it is under way";
  EXPECT_EQ(renewal.on_reply(at(9s), held(1, 30s)).step, Step::kWait);
  EXPECT_EQ(renewal.deadline(), at(39s) - kSlackOf30s);
  EXPECT_EQ(renewal.wake_at(), at(19s));
  EXPECT_FALSE(renewal.likes_company(at(18s) - 1ns));
}

// A short hold would give it back without a renewal.
TEST(RenewalFsmTest, AnInheritedLeaseGoesWithNobody) {
  RenewalFsm renewal(at(1s), terms(), held(0, 5s), log_with_acquire_at(at(1s)));
  EXPECT_EQ(renewal.wake_at(), at(1s) + 50ms);
  EXPECT_FALSE(renewal.likes_company(at(1s) + 49ms));
}

// Where none is asked for, company makes none.
TEST(RenewalFsmTest, ALeaseThatIsNotRenewedSendsNothingInCompany) {
  RenewalFsm::Terms how = terms();
  how.renew = false;
  EXPECT_EQ(granted(how).on_doubt(at(9s + 500ms)).step, Step::kWait);
}

TEST(RenewalFsmTest, ARenewalIsSentAtAThirdOfTheLease) {
  RenewalFsm renewal = granted();
  EXPECT_EQ(renewal.wake_at(), at(10s));
  EXPECT_EQ(renewal.on_tick(at(10s) - 1ns).step, Step::kWait);
  const auto action = renewal.on_tick(at(10s));
  EXPECT_EQ(action.step, Step::kSend);
  EXPECT_EQ(action.seq, 1U);
}

// A session of 30 s that is confirmed every 5 s, and whose third last confirmation counts.
port::AcquisitionState part_of_a_session(std::uint64_t seq, Duration lease, Duration more_in) {
  port::AcquisitionState state = held(seq, lease);
  state.more_in = more_in;
  return state;
}

TEST(RenewalFsmTest, WhatAStoreConfirmsAtIntervalsIsRenewedBehindEach) {
  RenewalFsm renewal(at(1s), terms(), part_of_a_session(0, 20s, 5s), log_with_acquire_at(at(0s)));
  EXPECT_EQ(renewal.wake_at(), at(5s));
  ASSERT_EQ(renewal.on_tick(at(5s)).step, Step::kSend);
  EXPECT_EQ(renewal.on_reply(at(5s), part_of_a_session(1, 19s, 4s)).step, Step::kWait);
  EXPECT_EQ(renewal.wake_at(), at(9s));
}

TEST(RenewalFsmTest, AConfirmationThatIsDueNowOrMuchLaterIsNotWaitedFor) {
  RenewalFsm soon(at(1s), terms(), part_of_a_session(0, 12s, 0s), log_with_acquire_at(at(0s)));
  EXPECT_EQ(soon.wake_at(), at(1s));
  RenewalFsm late(at(1s), terms(), part_of_a_session(0, 12s, 1h), log_with_acquire_at(at(0s)));
  EXPECT_EQ(late.wake_at(), at(6s));
}

TEST(RenewalFsmTest, AFailedRenewalOfAShortLeaseIsTriedAgainInGoodTime) {
  RenewalFsm renewal(at(0s), terms(10min), part_of_a_session(0, 12s, 5s),
                     log_with_acquire_at(at(0s)));
  ASSERT_EQ(renewal.on_tick(at(5s)).step, Step::kSend);
  EXPECT_EQ(renewal.on_reply(at(5s), unavailable()).step, Step::kWait);
  EXPECT_EQ(renewal.wake_at(), at(6s));
}

TEST(RenewalFsmTest, AMissedPushIsLookedAfterSoonUnlessTheLockIsGivenBackFirst) {
  RenewalFsm renewal = granted();
  EXPECT_EQ(renewal.on_push_missed(at(2s)).step, Step::kWait);
  EXPECT_EQ(renewal.wake_at(), at(2s) + 50ms);
  // Another one puts it off no further.
  EXPECT_EQ(renewal.on_push_missed(at(2s) + 20ms).step, Step::kWait);
  EXPECT_EQ(renewal.on_tick(at(2s) + 50ms).step, Step::kSend);
  // The answer to this one may be from before the next.
  EXPECT_EQ(renewal.on_push_missed(at(3s)).step, Step::kWait);
  EXPECT_EQ(renewal.on_reply(at(3s) + 1ms, held(1, 30s)).step, Step::kSend);
}

TEST(RenewalFsmTest, OnlyOneRenewalIsUnderWay) {
  RenewalFsm renewal = granted();
  ASSERT_EQ(renewal.on_tick(at(10s)).step, Step::kSend);
  EXPECT_EQ(renewal.on_tick(at(15s)).step, Step::kWait);
  EXPECT_EQ(renewal.wake_at(), renewal.deadline());
}

TEST(RenewalFsmTest, AReplyExtendsFromItsOwnSend) {
  RenewalFsm renewal = granted();
  ASSERT_EQ(renewal.on_tick(at(10s)).step, Step::kSend);
  EXPECT_EQ(renewal.on_reply(at(14s), held(1, 30s)).step, Step::kWait);
  EXPECT_EQ(renewal.deadline(), at(40s) - kSlackOf30s);
  EXPECT_EQ(renewal.wake_at(), at(20s));
}

TEST(RenewalFsmTest, ALateReplyDoesNotStretchTheLease) {
  RenewalFsm renewal = granted();
  ASSERT_EQ(renewal.on_tick(at(10s)).step, Step::kSend);
  EXPECT_EQ(renewal.on_reply(at(31s), held(1, 30s)).step, Step::kLost);
  EXPECT_EQ(renewal.state(), State::kLost);
  EXPECT_EQ(renewal.loss()->code(), Errc::kLost);
}

TEST(RenewalFsmTest, NothingRevivesALoss) {
  RenewalFsm renewal = granted();
  ASSERT_EQ(renewal.on_tick(at(10s)).step, Step::kSend);
  ASSERT_EQ(renewal.on_tick(at(30s)).step, Step::kLost);
  EXPECT_EQ(renewal.on_reply(at(30s), held(1, 30s)).step, Step::kWait);
  EXPECT_EQ(renewal.on_doubt(at(30s)).step, Step::kWait);
  EXPECT_EQ(renewal.on_tick(at(31s)).step, Step::kWait);
  EXPECT_EQ(renewal.state(), State::kLost);
  EXPECT_EQ(renewal.wake_at(), BootInstant::max());
}

TEST(RenewalFsmTest, TheLossIsToldAtTheDeadlineExactly) {
  RenewalFsm renewal = granted();
  ASSERT_EQ(renewal.on_tick(at(10s)).step, Step::kSend);
  EXPECT_EQ(renewal.on_tick(renewal.deadline() - 1ns).step, Step::kWait);
  EXPECT_EQ(renewal.on_tick(renewal.deadline()).step, Step::kLost);
}

TEST(RenewalFsmTest, OneFailedRenewalIsDoubtAndIsTriedAgain) {
  RenewalFsm renewal = granted();
  ASSERT_EQ(renewal.on_tick(at(10s)).step, Step::kSend);
  EXPECT_EQ(renewal.on_reply(at(11s), unavailable()).step, Step::kWait);
  EXPECT_EQ(renewal.state(), State::kInDoubt);
  EXPECT_EQ(renewal.deadline(), at(30s) - kSlackOf30s);
  EXPECT_EQ(renewal.wake_at(), at(11s) + 2500ms);
  ASSERT_EQ(renewal.on_tick(at(13500ms)).step, Step::kSend);
  EXPECT_EQ(renewal.on_reply(at(14s), held(2, 30s)).step, Step::kWait);
  EXPECT_EQ(renewal.state(), State::kHeld);
  EXPECT_EQ(renewal.deadline(), at(43500ms) - kSlackOf30s);
}

TEST(RenewalFsmTest, AnUnknownOutcomeExtendsNothing) {
  RenewalFsm renewal = granted();
  ASSERT_EQ(renewal.on_tick(at(10s)).step, Step::kSend);
  renewal.on_reply(at(11s), Error(Errc::kOutcomeUnknown, "no reply"));
  EXPECT_EQ(renewal.state(), State::kInDoubt);
  EXPECT_EQ(renewal.deadline(), at(30s) - kSlackOf30s);
}

TEST(RenewalFsmTest, GoneIsALossAtOnce) {
  RenewalFsm renewal = granted();
  ASSERT_EQ(renewal.on_tick(at(10s)).step, Step::kSend);
  EXPECT_EQ(renewal.on_reply(at(11s), gone()).step, Step::kLost);
}

TEST(RenewalFsmTest, BrokenIsToldAsSuch) {
  RenewalFsm renewal = granted();
  ASSERT_EQ(renewal.on_tick(at(10s)).step, Step::kSend);
  EXPECT_EQ(renewal.on_reply(at(11s), Error(Errc::kBroken, "by ops")).step, Step::kLost);
  EXPECT_EQ(renewal.loss()->code(), Errc::kBroken);
}

TEST(RenewalFsmTest, BrokenIsToldAsSuchAlsoBehindTheDeadline) {
  RenewalFsm renewal = granted();
  renewal.on_tick(at(10s));
  EXPECT_EQ(renewal.on_reply(at(31s), Error(Errc::kBroken, "by ops")).step, Step::kLost);
  EXPECT_EQ(renewal.loss()->code(), Errc::kBroken);
}

TEST(RenewalFsmTest, ARequestThatThisSideNeverSentIsATakeOver) {
  RenewalFsm renewal = granted();
  ASSERT_EQ(renewal.on_tick(at(10s)).step, Step::kSend);
  EXPECT_EQ(renewal.on_reply(at(11s), held(77, 30s)).step, Step::kLost);
  EXPECT_TRUE(renewal.taken_over());
}

// The store applied an older request last: the lease it names is what counts.
TEST(RenewalFsmTest, AReplyThatNamesAnOlderRequestCountsFromThat) {
  RenewalFsm renewal = granted();
  ASSERT_EQ(renewal.on_tick(at(10s)).step, Step::kSend);
  ASSERT_EQ(renewal.on_reply(at(11s), unavailable()).step, Step::kWait);
  ASSERT_EQ(renewal.on_tick(at(14s)).step, Step::kSend);
  renewal.on_reply(at(15s), held(1, 30s));
  EXPECT_EQ(renewal.deadline(), at(40s) - kSlackOf30s);
}

TEST(RenewalFsmTest, TheDeadlineNeverMovesBack) {
  RenewalFsm renewal = granted();
  ASSERT_EQ(renewal.on_tick(at(10s)).step, Step::kSend);
  renewal.on_reply(at(11s), held(0, 5s));
  EXPECT_EQ(renewal.deadline(), at(30s) - kSlackOf30s);
}

TEST(RenewalFsmTest, ARequestThatIsForgottenExtendsNothing) {
  RenewalFsm renewal = granted();
  BootInstant now = at(1s);
  for (int sent = 1; sent <= 20; ++sent) {
    now += 1s;
    ASSERT_EQ(renewal.on_doubt(now).step, Step::kSend);
    renewal.on_reply(now, unavailable());
  }
  ASSERT_EQ(renewal.on_doubt(now).step, Step::kSend);
  renewal.on_reply(now, held(1, 30s));
  EXPECT_EQ(renewal.deadline(), at(30s) - kSlackOf30s);
}

TEST(RenewalFsmTest, AnInheritedWaitersLeaseIsRenewedSoonButNotForAShortHold) {
  RenewalFsm renewal(at(2s), terms(), held(0, 5s), log_with_acquire_at(at(1s)));
  EXPECT_EQ(renewal.deadline(), at(6s) - 60ms);
  EXPECT_EQ(renewal.on_tick(at(2s)).step, Step::kWait);
  EXPECT_EQ(renewal.wake_at(), at(2050ms));
  EXPECT_EQ(renewal.on_tick(at(2050ms)).step, Step::kSend);
  renewal.on_reply(at(3s), held(1, 30s));
  EXPECT_EQ(renewal.deadline(), at(32s) + 50ms - kSlackOf30s);
}

TEST(RenewalFsmTest, AnOldInheritedLeaseIsRenewedAtOnce) {
  RenewalFsm renewal(at(3s), terms(), held(0, 5s), log_with_acquire_at(at(1s)));
  EXPECT_EQ(renewal.on_tick(at(3s)).step, Step::kSend);
}

TEST(RenewalFsmTest, MaxHoldEndsTheLeaseAndTheRenewals) {
  RenewalFsm::Terms how = terms();
  how.hold_until = at(15s);
  RenewalFsm renewal = granted(how);
  EXPECT_EQ(renewal.deadline(), at(15s));
  ASSERT_EQ(renewal.on_tick(at(10s)).step, Step::kSend);
  renewal.on_reply(at(11s), held(1, 30s));
  EXPECT_EQ(renewal.deadline(), at(15s));
  EXPECT_EQ(renewal.on_tick(at(14s)).step, Step::kWait);
  EXPECT_EQ(renewal.on_tick(at(15s)).step, Step::kLost);
  EXPECT_NE(renewal.loss()->message().find("max_hold"), std::string::npos);
}

TEST(RenewalFsmTest, WithoutRenewalTheLeaseRunsOut) {
  RenewalFsm::Terms how = terms();
  how.renew = false;
  RenewalFsm renewal = granted(how);
  EXPECT_EQ(renewal.on_tick(at(20s)).step, Step::kWait);
  EXPECT_EQ(renewal.wake_at(), renewal.deadline());
  EXPECT_EQ(renewal.on_tick(at(30s)).step, Step::kLost);
}

TEST(RenewalFsmTest, TheOwnerMayAskForARenewalAllTheSame) {
  RenewalFsm::Terms how = terms();
  how.renew = false;
  RenewalFsm renewal = granted(how);
  ASSERT_EQ(renewal.on_renew_asked(at(5s)).step, Step::kSend);
  renewal.on_reply(at(6s), held(1, 30s));
  EXPECT_EQ(renewal.replies(), 1U);
  EXPECT_EQ(renewal.deadline(), at(35s) - kSlackOf30s);
  EXPECT_EQ(renewal.on_tick(at(20s)).step, Step::kWait);
}

TEST(RenewalFsmTest, DoubtAsksAtOnceAndAgainAfterTheReplyUnderWay) {
  RenewalFsm renewal = granted();
  ASSERT_EQ(renewal.on_doubt(at(3s)).step, Step::kSend);
  EXPECT_EQ(renewal.on_doubt(at(3s)).step, Step::kWait);
  // The reply on its way may be older than what the hint was about.
  EXPECT_EQ(renewal.on_reply(at(4s), held(1, 30s)).step, Step::kSend);
  EXPECT_EQ(renewal.on_reply(at(5s), held(2, 30s)).step, Step::kWait);
}

TEST(RenewalFsmTest, ShortLeasesKeepNineTenths) {
  RenewalFsm renewal(at(0s), terms(100ms), held(0, 100ms), log_with_acquire_at(at(0s)));
  EXPECT_EQ(renewal.deadline(), at(100ms) - 1ms - 10ms);
}

// Time only goes on, replies of every kind come in any order: the deadline is monotonic and never
// beyond what some acknowledged send allows.
TEST(RenewalFsmTest, AnySequenceKeepsTheDeadlineWithinTheNewestSend) {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::uint64_t dice = seed * 0x9E3779B97F4A7C15ULL;
    const auto below = [&dice](std::uint64_t n) {
      dice ^= dice << 13U;
      dice ^= dice >> 7U;
      dice ^= dice << 17U;
      return dice % n;
    };
    RenewalFsm renewal = granted();
    BootInstant now = at(1s);
    BootInstant newest_send = at(0s);
    BootInstant last_deadline = renewal.deadline();
    std::uint64_t sent = 0;
    for (int step = 0; step < 60; ++step) {
      now += Nanos(static_cast<std::int64_t>(below(4'000'000'000)));
      RenewalFsm::Action action;
      switch (below(4)) {
        case 0: action = renewal.on_tick(now); break;
        case 1: action = renewal.on_doubt(now); break;
        case 2:
          action = renewal.in_flight() ? renewal.on_reply(now, held(below(sent + 1), 30s))
                                       : renewal.on_tick(now);
          break;
        default:
          action =
              renewal.in_flight() ? renewal.on_reply(now, unavailable()) : renewal.on_tick(now);
      }
      if (action.step == Step::kSend) {
        newest_send = now;
        sent = action.seq;
      }
      ASSERT_GE(renewal.deadline(), last_deadline);
      ASSERT_LE(renewal.deadline(), newest_send + 30s - kSlackOf30s);
      last_deadline = renewal.deadline();
      if (now >= last_deadline && renewal.on_tick(now).step != Step::kSend) {
        ASSERT_EQ(renewal.state(), State::kLost);
      }
    }
  }
}

TEST(RenewalFsmTest, ALateRenewalKnowsWhenItWasPlanned) {
  RenewalFsm renewal = granted();
  ASSERT_EQ(renewal.on_tick(at(13s)).step, Step::kSend);
  EXPECT_EQ(renewal.planned_at(), at(10s));
}

TEST(RenewalFsmTest, EveryLossHasItsCause) {
  using Cause = RenewalFsm::LossCause;
  RenewalFsm expired = granted();
  EXPECT_EQ(expired.loss_cause(), Cause::kNone);
  ASSERT_EQ(expired.on_tick(at(30s)).step, Step::kLost);
  EXPECT_EQ(expired.loss_cause(), Cause::kExpired);
  RenewalFsm forgotten = granted();
  forgotten.on_tick(at(10s));
  ASSERT_EQ(forgotten.on_reply(at(11s), gone()).step, Step::kLost);
  EXPECT_EQ(forgotten.loss_cause(), Cause::kStore);
  RenewalFsm adopted = granted();
  adopted.on_tick(at(10s));
  ASSERT_EQ(adopted.on_reply(at(11s), held(1'000'000, 30s)).step, Step::kLost);
  EXPECT_EQ(adopted.loss_cause(), Cause::kTakenOver);
  RenewalFsm::Terms bounded = terms();
  bounded.hold_until = at(5s);
  RenewalFsm too_long = granted(bounded);
  ASSERT_EQ(too_long.on_tick(at(5s)).step, Step::kLost);
  EXPECT_EQ(too_long.loss_cause(), Cause::kMaxHold);
}

// The request by which it is kept may be late: it shortens what an older one was granted.
TEST(RenewalFsmTest, OnceAShorterLeaseWasAskedForAnOlderOneIsNotCountedOn) {
  RenewalFsm renewal = granted();
  EXPECT_EQ(renewal.begin_to_keep(at(2s), 5s), 1U);
  const BootInstant brief =
      at(2s) + ClockBound().safe_deadline(BootInstant(), 5s).time_since_epoch();
  EXPECT_EQ(renewal.deadline(), brief);
  EXPECT_EQ(renewal.wake_at(), BootInstant::max());
  EXPECT_EQ(renewal.on_tick(at(6s)).step, Step::kWait);
  const auto again = renewal.on_not_kept(at(3s), /*surely_not=*/false);
  ASSERT_EQ(again.step, Step::kSend);
  EXPECT_EQ(again.seq, 2U);
  renewal.on_reply(at(4s), held(0, 30s));
  EXPECT_EQ(renewal.deadline(), brief);
  EXPECT_EQ(renewal.on_doubt(at(4s)).step, Step::kSend);
  renewal.on_reply(at(4s), held(3, 30s));
  EXPECT_EQ(renewal.deadline(), at(34s) - kSlackOf30s);
}

TEST(RenewalFsmTest, AShorterLeaseThatWasRefusedChangesNothing) {
  RenewalFsm renewal = granted();
  const BootInstant before = renewal.deadline();
  renewal.begin_to_keep(at(2s), 500ms);
  EXPECT_LT(renewal.deadline(), before);
  renewal.on_not_kept(at(4s), /*surely_not=*/true);
  EXPECT_EQ(renewal.deadline(), before);
  EXPECT_EQ(renewal.on_tick(at(4s)).step, Step::kWait);
}

}  // namespace
}  // namespace holdfast::session
