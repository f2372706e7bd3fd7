// The barging policy: a release wakes, never grants, and newcomers may overtake.
#include <gtest/gtest.h>

#include "src/machine/machine_test_support.h"

namespace holdfast::machine {
namespace {

class BargingTest : public ::testing::Test {
 protected:
  BargingTest() { d.policy = Policy::kBarging; }
  Driver d;
};

TEST_F(BargingTest, ReleaseWakesTheHeadAndGrantsToNobody) {
  d.line_up(3);
  d.release(1);
  EXPECT_EQ(d.did(EffectKind::kNotified), Ids{2});
  EXPECT_EQ(d.did(EffectKind::kGranted), Ids{});
  EXPECT_EQ(d.holders(), Ids{});
}

TEST_F(BargingTest, ANewcomerOvertakesTheQueue) {
  d.line_up(2);
  d.release(1);
  EXPECT_EQ(d.try_acquire(3).outcome, Outcome::kHeld);
  EXPECT_EQ(d.renew(2, 1).outcome, Outcome::kWaiting);
}

TEST_F(BargingTest, AHeartbeatTriesAgainAndGetsAFullLease) {
  d.line_up(2);
  d.release(1);
  d.now = at(10);
  const Reply reply = d.renew(2, 1);
  EXPECT_EQ(reply.outcome, Outcome::kHeld);
  EXPECT_EQ(reply.lease_end, at(110));
  EXPECT_EQ(reply.lease, d.ttl);
  EXPECT_EQ(reply.seq, 1U);
  EXPECT_EQ(d.effect(EffectKind::kGranted).lease_end, at(110));
}

TEST_F(BargingTest, ARepeatedAcquireTriesAgainAndCountsAsTheFirst) {
  d.line_up(2);
  d.renew(2, 1);
  d.release(1);
  d.now = at(10);
  const Reply reply = d.acquire(2);
  EXPECT_EQ(reply.outcome, Outcome::kHeld);
  EXPECT_EQ(reply.lease_end, at(110));
  EXPECT_EQ(reply.seq, 0U);
}

TEST_F(BargingTest, ALateHeartbeatDoesNotTry) {
  d.line_up(2);
  d.renew(2, 2);
  d.now = at(5);
  d.renew(2, 3);
  d.release(1);
  EXPECT_EQ(d.renew(2, 3).outcome, Outcome::kWaiting);
  EXPECT_EQ(d.renew(2, 4).outcome, Outcome::kHeld);
}

TEST_F(BargingTest, AWaiterMayPassThoseAheadOfIt) {
  d.line_up(3);
  d.release(1);
  d.now = at(1);
  EXPECT_EQ(d.renew(3, 1).outcome, Outcome::kHeld);
  EXPECT_EQ(d.renew(2, 1).outcome, Outcome::kWaiting);
}

TEST_F(BargingTest, AGrantNeverShortensTheWaitersLease) {
  d.acquire(1);
  d.waiter_ttl = Duration{500};
  d.acquire(2);
  d.release(1);
  const Reply reply = d.renew(2, 1);
  EXPECT_EQ(reply.outcome, Outcome::kHeld);
  EXPECT_EQ(reply.lease_end, at(500));
  EXPECT_EQ(reply.seq, 0U);
  EXPECT_EQ(reply.lease, Duration{500});
}

TEST_F(BargingTest, AllReadersAtTheHeadAreWoken) {
  d.acquire(1);
  d.acquire(2, Mode::shared());
  d.acquire(3, Mode::shared());
  d.acquire(4);
  d.acquire(5, Mode::shared());
  d.release(1);
  EXPECT_EQ(d.did(EffectKind::kNotified), (Ids{2, 3}));
}

TEST_F(BargingTest, PermitsWakeAsManyAsFit) {
  for (const std::uint64_t who : {1U, 2U}) d.acquire(who, Mode::of_permits(2, 4));
  for (const std::uint64_t who : {3U, 4U, 5U}) d.acquire(who, Mode::of_permits(1, 4));
  d.release(1);
  EXPECT_EQ(d.did(EffectKind::kNotified), (Ids{3, 4}));
}

TEST_F(BargingTest, ExpiryWakesTheHead) {
  d.acquire(1);
  d.now = at(90);
  d.acquire(2);
  d.tick(at(100));
  EXPECT_EQ(d.did(EffectKind::kNotified), Ids{2});
}

TEST_F(BargingTest, ADeadHeadPassesTheWakeUpOn) {
  d.line_up(2);
  d.now = at(10);
  d.acquire(3);
  d.release(1);
  d.tick(at(30));
  EXPECT_EQ(d.did(EffectKind::kExpired), Ids{2});
  EXPECT_EQ(d.did(EffectKind::kNotified), Ids{3});
}

TEST_F(BargingTest, NobodyIsWokenWhileTheLockIsHeld) {
  d.line_up(3);
  d.cancel(2);
  EXPECT_EQ(d.did(EffectKind::kNotified), Ids{});
}

TEST_F(BargingTest, DowngradeWakesTheReaders) {
  d.acquire(1);
  d.acquire(2, Mode::shared());
  d.downgrade(1);
  EXPECT_EQ(d.did(EffectKind::kNotified), Ids{2});
}

TEST_F(BargingTest, TheLastReaderButOneWakesTheUpgrade) {
  d.acquire(1, Mode::shared());
  d.acquire(2, Mode::shared());
  d.acquire(3);
  EXPECT_EQ(d.upgrade(1, 4).outcome, Outcome::kWaiting);
  d.release(2);
  EXPECT_EQ(d.did(EffectKind::kNotified), Ids{4});
  EXPECT_EQ(d.renew(4, 1).outcome, Outcome::kHeld);
  EXPECT_EQ(d.holders(), (Ids{1, 4}));
}

TEST_F(BargingTest, AShrinkTakesEffectByItself) {
  d.acquire(1, Mode::of_permits(4, 4));
  d.acquire(2, Mode::of_permits(2, 4));
  EXPECT_EQ(d.resize(9, 2).outcome, Outcome::kWaiting);
  d.release(1);
  EXPECT_EQ(d.did(EffectKind::kResized), Ids{9});
  EXPECT_EQ(d.did(EffectKind::kNotified), Ids{2});
}

TEST_F(BargingTest, AShrinkThatWaitsDoesNotKeepOthersAsleep) {
  d.acquire(1, Mode::of_permits(2, 4));
  d.acquire(2, Mode::of_permits(2, 4));
  d.resize(9, 1);
  d.acquire(3, Mode::of_permits(1, 4));
  d.release(1);
  EXPECT_EQ(d.waiters(), (Ids{9, 3}));
  EXPECT_EQ(d.did(EffectKind::kNotified), Ids{3});
}

TEST_F(BargingTest, GrowingNWakesThoseWhoFitNow) {
  d.acquire(1, Mode::of_permits(2, 2));
  d.acquire(2, Mode::of_permits(1, 2));
  d.resize(9, 3);
  EXPECT_EQ(d.did(EffectKind::kNotified), Ids{2});
}

TEST_F(BargingTest, AFreeLockWithWaitersTellsThemToAskAgainNow) {
  d.line_up(3);
  d.release(1);
  d.now = at(3);
  const Reply late = d.renew(2, 0);
  EXPECT_EQ(late.outcome, Outcome::kWaiting);
  EXPECT_EQ(late.next_expiry, at(3));
}

TEST_F(BargingTest, NoMoreAreWokenThanAStepAdmits) {
  d.acquire(1);
  for (std::uint64_t who = 2; who < 300; ++who) d.acquire(who, Mode::shared());
  d.release(1);
  EXPECT_EQ(d.did(EffectKind::kNotified).size(), 128U);
}

}  // namespace
}  // namespace holdfast::machine
