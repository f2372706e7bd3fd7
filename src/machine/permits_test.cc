// n of N permits, what all users of a name must agree on, and changing N.
#include <gtest/gtest.h>

#include "src/machine/machine_test_support.h"

namespace holdfast::machine {
namespace {

constexpr Mode of(std::uint32_t n, std::uint32_t capacity = 4) {
  return Mode::of_permits(n, capacity);
}

TEST(PermitsTest, HoldersShareTheCapacity) {
  Driver d;
  EXPECT_EQ(d.acquire(1, of(3)).outcome, Outcome::kHeld);
  EXPECT_EQ(d.acquire(2, of(1)).outcome, Outcome::kHeld);
  EXPECT_EQ(d.acquire(3, of(1)).outcome, Outcome::kWaiting);
  d.release(2);
  EXPECT_EQ(d.holders(), (Ids{1, 3}));
}

TEST(PermitsTest, ALargeRequestIsNotStarvedBySmallOnes) {
  Driver d;
  d.acquire(1, of(2));
  d.acquire(2, of(3));
  EXPECT_EQ(d.acquire(3, of(1)).outcome, Outcome::kWaiting);
  d.release(1);
  EXPECT_EQ(d.did(EffectKind::kGranted), (Ids{2, 3}));
}

TEST(PermitsTest, MoreThanNIsTooLarge) {
  Driver d;
  EXPECT_EQ(d.acquire(1, of(5)).outcome, Outcome::kTooLarge);
  EXPECT_TRUE(d.machine.names("", 9).empty());
}

TEST(PermitsTest, AnotherNOrKindIsAMismatchWhileThereAreTickets) {
  Driver d;
  d.acquire(1, of(1));
  EXPECT_EQ(d.acquire(2, of(1, 5)).outcome, Outcome::kMismatch);
  EXPECT_EQ(d.acquire(2).outcome, Outcome::kMismatch);
  EXPECT_EQ(d.acquire(2, Mode::shared()).outcome, Outcome::kMismatch);
  EXPECT_TRUE(d.effects.empty());
  EXPECT_EQ(d.holders(), Ids{1});
}

TEST(PermitsTest, AnIdleLockTakesAnyKind) {
  Driver d;
  d.tombstone = Duration{500};
  d.acquire(1, of(1));
  d.release(1);  // The tombstone keeps the lock.
  EXPECT_EQ(d.acquire(2, of(2, 7)).outcome, Outcome::kHeld);
  EXPECT_EQ(d.machine.inspect(d.name)->capacity, 7U);
  d.release(2);
  EXPECT_EQ(d.acquire(3).outcome, Outcome::kHeld);
  EXPECT_EQ(d.machine.inspect(d.name)->kind, ModeKind::kExclusive);
}

TEST(PermitsTest, CountsMeanNothingForTheOtherKinds) {
  Driver d;
  EXPECT_EQ(d.acquire(1, Mode{ModeKind::kShared, 9, 3}).outcome, Outcome::kHeld);
  EXPECT_EQ(d.acquire(2, Mode{ModeKind::kShared, 0, 0}).outcome, Outcome::kHeld);
  EXPECT_EQ(d.machine.inspect(d.name)->tickets[0].mode, Mode::shared());
}

TEST(PermitsTest, PermitsAreNotDowngradedNorUpgraded) {
  Driver d;
  d.acquire(1, of(1));
  EXPECT_EQ(d.downgrade(1).outcome, Outcome::kMismatch);
  EXPECT_EQ(d.upgrade(1, 2).outcome, Outcome::kMismatch);
}

TEST(PermitsTest, GrowingNTakesEffectAtOnce) {
  Driver d;
  d.acquire(1, of(4));
  d.acquire(2, of(2));
  EXPECT_EQ(d.resize(9, 6).outcome, Outcome::kDone);
  EXPECT_EQ(d.did(EffectKind::kResized).size(), 1U);
  EXPECT_EQ(d.effect(EffectKind::kResized).mode.capacity, 6U);
  EXPECT_EQ(d.holders(), (Ids{1, 2}));
  EXPECT_EQ(d.acquire(3, of(1, 4)).outcome, Outcome::kMismatch);
  EXPECT_EQ(d.acquire(3, of(1, 6)).outcome, Outcome::kWaiting);
}

TEST(PermitsTest, ShrinkingNIsImmediateWhereThereIsRoom) {
  Driver d;
  d.acquire(1, of(1));
  EXPECT_EQ(d.resize(9, 2).outcome, Outcome::kDone);
  EXPECT_EQ(d.machine.inspect(d.name)->capacity, 2U);
  EXPECT_EQ(d.machine.inspect(d.name)->tickets.size(), 1U);
}

TEST(PermitsTest, ShrinkingNWaitsInTheQueueForItsDifference) {
  Driver d;
  d.acquire(1, of(3));
  const Reply reply = d.resize(9, 2);
  EXPECT_EQ(reply.outcome, Outcome::kWaiting);
  EXPECT_TRUE(d.effect(EffectKind::kQueued).system);
  EXPECT_EQ(d.acquire(2, of(1)).outcome, Outcome::kWaiting) << "it stands behind the shrink";
  EXPECT_EQ(d.machine.inspect(d.name)->capacity, 4U);
  d.release(1);
  EXPECT_EQ(d.effect(EffectKind::kResized).id, id(9));
  EXPECT_EQ(d.effect(EffectKind::kResized).mode.capacity, 2U);
  EXPECT_EQ(d.did(EffectKind::kGranted), Ids{2});
  EXPECT_EQ(d.machine.inspect(d.name)->capacity, 2U);
}

TEST(PermitsTest, AShrinkDropsTheWaitersThatNoLongerFit) {
  Driver d;
  d.acquire(1, of(4));
  d.resize(9, 2);
  d.acquire(2, of(3));
  d.acquire(3, of(2));
  d.release(1);
  EXPECT_EQ(d.did(EffectKind::kDropped), Ids{2});
  EXPECT_EQ(d.did(EffectKind::kGranted), Ids{3});
}

TEST(PermitsTest, AWaiterThatIsDroppedInItsOwnHeartbeatIsTold) {
  Driver d;
  d.acquire(1, of(4));
  d.resize(9, 2);
  d.now = at(90);
  d.acquire(2, of(3));
  d.now = at(100);
  EXPECT_EQ(d.renew(2, 1).outcome, Outcome::kTooLarge);
  EXPECT_EQ(d.renew(2, 2).outcome, Outcome::kGone);
}

TEST(PermitsTest, AShrinkHasNoLease) {
  Driver d;
  d.acquire(1, of(4));
  d.resize(9, 2);
  d.now = at(90);
  d.renew(1, 1);
  d.tick(at(180));
  EXPECT_EQ(d.waiters(), Ids{9});
  EXPECT_EQ(d.renew(9, 1).outcome, Outcome::kGone);
  EXPECT_EQ(d.acquire(9, of(1)).outcome, Outcome::kInvalid);
  d.tick(at(190));
  EXPECT_EQ(d.machine.inspect(d.name), std::nullopt) << "a lock without tickets has no N";
}

TEST(PermitsTest, ARepeatedResizeKeepsItsPlace) {
  Driver d;
  d.acquire(1, of(4));
  d.resize(9, 2);
  d.acquire(2, of(1));
  EXPECT_EQ(d.resize(9, 2).outcome, Outcome::kWaiting);
  EXPECT_TRUE(d.effects.empty());
  EXPECT_EQ(d.waiters(), (Ids{9, 2}));
}

TEST(PermitsTest, ARepeatedResizeForWhichTheStepMakesWayIsDone) {
  Driver d;
  d.acquire(1, of(3));
  d.now = at(50);
  d.acquire(2, of(1));
  d.resize(9, 2);
  EXPECT_EQ(d.waiters(), Ids{9});
  d.now = at(100);  // 1 is over.
  EXPECT_EQ(d.resize(9, 2).outcome, Outcome::kDone);
  EXPECT_EQ(d.effect(EffectKind::kResized).id, id(9));
  EXPECT_EQ(d.machine.inspect(d.name)->capacity, 2U);
}

TEST(PermitsTest, ALaterResizeReplacesTheOneThatWaits) {
  Driver d;
  d.acquire(1, of(4));
  d.resize(8, 2);
  d.resize(9, 3);
  EXPECT_EQ(d.did(EffectKind::kCancelled), Ids{8});
  EXPECT_EQ(d.waiters(), Ids{9});
  EXPECT_EQ(d.resize(7, 4).outcome, Outcome::kDone) << "back to what it is";
  EXPECT_EQ(d.waiters(), Ids{});
}

TEST(PermitsTest, AWaitingResizeCanBeCancelledForGood) {
  Driver d;
  d.tombstone = Duration{50};
  d.acquire(1, of(4));
  d.resize(9, 2);
  d.acquire(2, of(1));
  EXPECT_EQ(d.cancel(9).outcome, Outcome::kCancelled);
  EXPECT_EQ(d.resize(9, 2).outcome, Outcome::kGone);
  d.release(1);
  EXPECT_EQ(d.machine.inspect(d.name)->capacity, 4U);
}

TEST(PermitsTest, OnlyPermitsWithTicketsAreResized) {
  Driver d;
  EXPECT_EQ(d.resize(9, 2).outcome, Outcome::kNotHeld);
  d.acquire(1);
  EXPECT_EQ(d.resize(9, 2).outcome, Outcome::kMismatch);
  d.name = "semaphore";
  d.acquire(1, of(1));
  EXPECT_EQ(d.resize(9, 0).outcome, Outcome::kInvalid);
  EXPECT_EQ(d.resize(0, 2).outcome, Outcome::kDone) << "0xF00D:0 is an id like any other";
  EXPECT_EQ(d.apply(Resize{.name = d.name, .capacity = 2}).outcome, Outcome::kInvalid);
  EXPECT_EQ(d.resize(1, 1).outcome, Outcome::kInvalid) << "an acquisition's id";
}

TEST(PermitsTest, AnAcquireInTheStepOfTheShrinkMustKnowTheNewN) {
  Driver d;
  d.acquire(1, of(4));
  d.acquire(2, of(4));
  d.resize(9, 2);
  d.now = at(29);
  d.acquire(3, of(1));
  d.now = at(100);  // 1 and 2 are over, and so the shrink takes effect first.
  d.renew(3, 1);
  EXPECT_EQ(d.acquire(4, of(1, 4)).outcome, Outcome::kHeld) << "nobody was left to hold it to 2";
}

TEST(PermitsTest, AStaleNInTheStepOfTheShrinkIsAMismatch) {
  Driver d;
  d.acquire(1, of(2));
  d.now = at(50);
  d.acquire(2, of(1));
  d.resize(9, 2);  // 2 + 1 + 2 > 4: waits.
  EXPECT_EQ(d.waiters(), Ids{9});
  d.now = at(100);
  EXPECT_EQ(d.acquire(3, of(1, 4)).outcome, Outcome::kMismatch);
  EXPECT_EQ(d.machine.inspect(d.name)->capacity, 2U);
  EXPECT_EQ(d.acquire(3, of(1, 2)).outcome, Outcome::kHeld);
}

}  // namespace
}  // namespace holdfast::machine
