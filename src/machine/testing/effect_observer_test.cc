// The observer must refuse what no machine may say: a check that accepts everything checks nothing.
#include "src/machine/testing/effect_observer.h"

#include <gtest/gtest.h>

namespace holdfast::machine::testing {
namespace {

constexpr Instant at(std::int64_t us) { return Instant{Duration{us}}; }

Effect effect(EffectKind kind, std::uint64_t who, std::uint64_t order = 1) {
  Effect effect{.kind = kind, .name = "a", .id = {0, who}, .order = order};
  effect.lease_end = at(100);
  if (kind == EffectKind::kGranted) effect.token = {0, order};
  return effect;
}

class EffectObserverTest : public ::testing::Test {
 protected:
  EffectObserverTest() {
    EXPECT_TRUE(observer.see(effect(EffectKind::kGranted, 1, 1)));
    EXPECT_TRUE(observer.see(effect(EffectKind::kQueued, 2, 2)));
  }
  EffectObserver observer{Token{}};
};

TEST_F(EffectObserverTest, BuildsWhatItIsTold) {
  const MachineImage image = observer.image();
  ASSERT_EQ(image.locks.size(), 1U);
  ASSERT_EQ(image.locks[0].tickets.size(), 2U);
  EXPECT_TRUE(image.locks[0].tickets[0].held);
  EXPECT_FALSE(image.locks[0].tickets[1].held);
  EXPECT_EQ(image.locks[0].next_order, 3U);
}

TEST_F(EffectObserverTest, RefusesATicketThatIsThere) {
  EXPECT_FALSE(observer.see(effect(EffectKind::kQueued, 2, 3)));
  EXPECT_FALSE(observer.see(effect(EffectKind::kGranted, 1, 3)));
}

TEST_F(EffectObserverTest, RefusesAnOrderThatWasGiven) {
  EXPECT_FALSE(observer.see(effect(EffectKind::kQueued, 3, 2)));
}

TEST_F(EffectObserverTest, RefusesATokenThatDoesNotGrow) {
  Effect grant = effect(EffectKind::kGranted, 2, 2);
  grant.token = {0, 1};
  EXPECT_FALSE(observer.see(grant));
}

TEST_F(EffectObserverTest, RefusesALeaseThatMovesBack) {
  Effect extended = effect(EffectKind::kExtended, 1);
  extended.lease_end = at(99);
  EXPECT_FALSE(observer.see(extended));
  Effect grant = effect(EffectKind::kGranted, 2, 2);
  grant.lease_end = at(50);
  EXPECT_FALSE(observer.see(grant));
}

TEST_F(EffectObserverTest, RefusesTheEndOfWhatIsNotThere) {
  for (const EffectKind kind : {EffectKind::kReleased, EffectKind::kExpired, EffectKind::kCancelled,
                                EffectKind::kBroken, EffectKind::kDropped}) {
    EXPECT_FALSE(observer.see(effect(kind, 9)));
  }
}

TEST_F(EffectObserverTest, RefusesTheReleaseOfAWaiterAndTheCancelOfAHolder) {
  EXPECT_FALSE(observer.see(effect(EffectKind::kReleased, 2)));
  Effect cancel = effect(EffectKind::kCancelled, 1);
  cancel.was_holder = true;
  EXPECT_FALSE(observer.see(cancel));
}

TEST_F(EffectObserverTest, RefusesAnExpiryBeforeItsTime) {
  Effect expired = effect(EffectKind::kExpired, 1);
  expired.was_holder = true;
  observer.pass(at(99));
  EXPECT_FALSE(observer.see(expired));
  observer.pass(at(100));
  EXPECT_TRUE(observer.see(expired));
}

TEST_F(EffectObserverTest, RefusesTheDowngradeOfAWaiterOrWithAnotherToken) {
  EXPECT_FALSE(observer.see(effect(EffectKind::kDowngraded, 2)));
  EXPECT_FALSE(observer.see(effect(EffectKind::kDowngraded, 1)));
  Effect downgraded = effect(EffectKind::kDowngraded, 1);
  downgraded.token = {0, 1};
  EXPECT_TRUE(observer.see(downgraded));
}

TEST_F(EffectObserverTest, RefusesATicketForADeadIdAndADeadIdForATicket) {
  EXPECT_FALSE(observer.see(effect(EffectKind::kTombstone, 1)));
  EXPECT_TRUE(observer.see(effect(EffectKind::kTombstone, 3)));
  EXPECT_FALSE(observer.see(effect(EffectKind::kQueued, 3, 3)));
  EXPECT_TRUE(observer.see(effect(EffectKind::kTombstoneDropped, 3)));
  EXPECT_FALSE(observer.see(effect(EffectKind::kTombstoneDropped, 3)));
}

TEST_F(EffectObserverTest, RefusesToForgetWhatIsInUse) {
  EXPECT_FALSE(observer.see(effect(EffectKind::kForgotten, 0)));
}

}  // namespace
}  // namespace holdfast::machine::testing
