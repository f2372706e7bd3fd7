// Readers and writers, upgrade and downgrade, permits.
#include "tests/conformance/harness.h"

namespace holdfast::testing {

TEST_P(ModesConformance, ReadersHoldTogetherAndKeepWritersOut) {
  HOLDFAST_NEEDS(promised().shared, "no shared locks");
  EXPECT_TRUE(holds(client().acquire({"doc", fresh(), Mode::shared()})));
  EXPECT_TRUE(holds(client("bob").acquire({"doc", fresh(), Mode::shared()})));
  EXPECT_TRUE(is_busy(client("carol").acquire(Request("doc", fresh()).no_wait())));
}

TEST_P(ModesConformance, AWriterKeepsReadersOut) {
  HOLDFAST_NEEDS(promised().shared, "no shared locks");
  EXPECT_TRUE(holds(client().acquire({"doc", fresh()})));
  EXPECT_TRUE(is_busy(client("bob").acquire(Request("doc", fresh(), Mode::shared()).no_wait())));
}

TEST_P(ModesConformance, NeitherReadersNorWritersStarve) {
  HOLDFAST_NEEDS(promised().shared && promised().fair, "no shared locks in order");
  const auto reader = fresh();
  const auto writer = fresh();
  const auto late_reader = fresh();
  const auto late_writer = fresh();
  ASSERT_TRUE(holds(client().acquire({"doc", reader, Mode::shared()})));
  ASSERT_TRUE(waits(client().acquire({"doc", writer})));
  ASSERT_TRUE(waits(client().acquire({"doc", late_reader, Mode::shared()})));
  ASSERT_TRUE(waits(client().acquire({"doc", late_writer})));
  ASSERT_TRUE(ends(client().release("doc", reader), EndStatus::kReleased));
  EXPECT_TRUE(holds(client().renew("doc", writer, 1)));
  EXPECT_TRUE(waits(client().renew("doc", late_reader, 1)));
  ASSERT_TRUE(ends(client().release("doc", writer), EndStatus::kReleased));
  EXPECT_TRUE(holds(client().renew("doc", late_reader, 2)));
  EXPECT_TRUE(waits(client().renew("doc", late_writer, 1)));
  ASSERT_TRUE(ends(client().release("doc", late_reader), EndStatus::kReleased));
  EXPECT_TRUE(holds(client().renew("doc", late_writer, 2)));
}

TEST_P(ModesConformance, EachReaderHasItsOwnLease) {
  HOLDFAST_NEEDS_OWN_LEASES();
  HOLDFAST_NEEDS(promised().shared, "no shared locks");
  const auto dies = fresh();
  const auto lives = fresh();
  const auto writer = fresh();
  ASSERT_TRUE(holds(client().acquire(Request("doc", dies, Mode::shared()).leases(4s, 4s))));
  ASSERT_TRUE(holds(client().acquire(Request("doc", lives, Mode::shared()).leases(8s, 4s))));
  ASSERT_TRUE(waits(client("bob").acquire(Request("doc", writer).leases(30s, 30s))));
  pass(4s);
  EXPECT_TRUE(is_gone(client().renew("doc", dies, 1)));
  EXPECT_TRUE(waits(client("bob").renew("doc", writer, 1, 30s, 30s)));
  pass(4s);
  EXPECT_TRUE(holds(client("bob").renew("doc", writer, 2)));
}

TEST_P(ModesConformance, TheOnlyReaderUpgradesAtOnceWithANewToken) {
  HOLDFAST_NEEDS(promised().upgrade, "no upgrade");
  const auto base = fresh();
  const auto upgrade = fresh();
  const auto shared = client().acquire({"doc", base, Mode::shared()});
  ASSERT_TRUE(holds(shared));
  const auto exclusive = client().acquire(Request("doc", upgrade).upgrading(base));
  ASSERT_TRUE(holds(exclusive));
  EXPECT_GT(exclusive->token, shared->token);
  EXPECT_TRUE(is_busy(client("bob").acquire(Request("doc", fresh(), Mode::shared()).no_wait())));
}

TEST_P(ModesConformance, AnUpgradeWaitsForTheOtherReadersAndPassesTheWriters) {
  HOLDFAST_NEEDS(promised().upgrade, "no upgrade");
  const auto base = fresh();
  const auto other = fresh();
  const auto writer = fresh();
  const auto upgrade = fresh();
  ASSERT_TRUE(holds(client().acquire({"doc", base, Mode::shared()})));
  ASSERT_TRUE(holds(client("bob").acquire({"doc", other, Mode::shared()})));
  ASSERT_TRUE(waits(client("carol").acquire({"doc", writer})));
  ASSERT_TRUE(waits(client().acquire(Request("doc", upgrade).upgrading(base))));
  EXPECT_TRUE(is_busy(client("dan").acquire(Request("doc", fresh(), Mode::shared()).no_wait())));
  ASSERT_TRUE(ends(client("bob").release("doc", other), EndStatus::kReleased));
  EXPECT_TRUE(client().inbox().next(upgrade));
  EXPECT_TRUE(holds(client().renew("doc", upgrade, 1)));
  EXPECT_TRUE(waits(client("carol").renew("doc", writer, 1)));
}

TEST_P(ModesConformance, NobodyStandsBeforeAnUpgradeThatWaits) {
  HOLDFAST_NEEDS_OWN_LEASES();
  HOLDFAST_NEEDS(promised().upgrade, "no upgrade");
  const auto base = fresh();
  const auto upgrade = fresh();
  ASSERT_TRUE(holds(client().acquire({"doc", base, Mode::shared()})));
  ASSERT_TRUE(holds(client("bob").acquire({"doc", fresh(), Mode::shared()})));
  ASSERT_TRUE(waits(client("carol").acquire({"doc", fresh()})));
  const auto asked = client().acquire(Request("doc", upgrade).upgrading(base));
  ASSERT_TRUE(waits(asked));
  EXPECT_EQ(asked->ahead, 0U);
  pass(1s);
  const auto beat = client().renew("doc", upgrade, 1);
  ASSERT_TRUE(waits(beat));
  EXPECT_EQ(beat->ahead, 0U);
}

TEST_P(ModesConformance, ASecondUpgradeWouldDeadlock) {
  HOLDFAST_NEEDS(promised().upgrade, "no upgrade");
  const auto first = fresh();
  const auto second = fresh();
  const auto upgrade = fresh();
  ASSERT_TRUE(holds(client().acquire({"doc", first, Mode::shared()})));
  ASSERT_TRUE(holds(client("bob").acquire({"doc", second, Mode::shared()})));
  ASSERT_TRUE(waits(client().acquire(Request("doc", upgrade).upgrading(first))));
  EXPECT_TRUE(fails(client("bob").acquire(Request("doc", fresh()).upgrading(second)),
                    Errc::kWouldDeadlock));
  ASSERT_TRUE(ends(client("bob").release("doc", second), EndStatus::kReleased));
  EXPECT_TRUE(holds(client().renew("doc", upgrade, 1)));
}

TEST_P(ModesConformance, AnUpgradeEndsWithItsBase) {
  HOLDFAST_NEEDS(promised().upgrade, "no upgrade");
  const auto base = fresh();
  const auto upgrade = fresh();
  ASSERT_TRUE(holds(client().acquire({"doc", base, Mode::shared()})));
  ASSERT_TRUE(holds(client().acquire(Request("doc", upgrade).upgrading(base))));
  ASSERT_TRUE(ends(client().release("doc", base), EndStatus::kReleased));
  EXPECT_TRUE(is_gone(client().renew("doc", upgrade, 1)));
  EXPECT_TRUE(holds(client("bob").acquire(Request("doc", fresh()).no_wait())));
}

TEST_P(ModesConformance, AnUpgradeOfALeaseThatEndedIsLost) {
  HOLDFAST_NEEDS(promised().upgrade, "no upgrade");
  const auto base = fresh();
  ASSERT_TRUE(holds(client().acquire({"doc", base, Mode::shared()})));
  ASSERT_TRUE(holds(client("bob").acquire({"doc", fresh(), Mode::shared()})));
  ASSERT_TRUE(ends(client().release("doc", base), EndStatus::kReleased));
  EXPECT_TRUE(fails(client().acquire(Request("doc", fresh()).upgrading(base)), Errc::kLost));
}

TEST_P(ModesConformance, DowngradeOfAnUpgradeGoesBackToItsBase) {
  HOLDFAST_NEEDS(promised().upgrade, "no upgrade");
  const auto base = fresh();
  const auto upgrade = fresh();
  ASSERT_TRUE(holds(client().acquire({"doc", base, Mode::shared()})));
  ASSERT_TRUE(holds(client().acquire(Request("doc", upgrade).upgrading(base))));
  ASSERT_TRUE(client().downgrade("doc", upgrade));
  EXPECT_TRUE(is_gone(client().renew("doc", upgrade, 1)));
  EXPECT_TRUE(holds(client().renew("doc", base, 1)));
  EXPECT_TRUE(holds(client("bob").acquire(Request("doc", fresh(), Mode::shared()).no_wait())));
}

TEST_P(ModesConformance, DowngradeKeepsTheTokenAndWakesReaders) {
  HOLDFAST_NEEDS(promised().shared, "no shared locks");
  const auto writer = fresh();
  const auto reader = fresh();
  const auto next_writer = fresh();
  const auto grant = client().acquire({"doc", writer});
  ASSERT_TRUE(holds(grant));
  ASSERT_TRUE(waits(client("bob").acquire({"doc", reader, Mode::shared()})));
  ASSERT_TRUE(waits(client("carol").acquire({"doc", next_writer})));
  const auto weaker = client().downgrade("doc", writer);
  ASSERT_TRUE(holds(weaker));
  EXPECT_EQ(weaker->token, grant->token);
  EXPECT_TRUE(client("bob").inbox().next(reader));
  EXPECT_TRUE(holds(client("bob").renew("doc", reader, 1)));
  EXPECT_TRUE(holds(client().renew("doc", writer, 1)));
  EXPECT_TRUE(waits(client("carol").renew("doc", next_writer, 1)));
}

// Where a listing tells of the key alone, the head looks exclusive still.
TEST_P(ModesConformance, AReaderBesideADowngradedLeaseIsNotCountedAsAWaiter) {
  HOLDFAST_NEEDS(promised().shared, "no shared locks");
  const auto writer = fresh();
  ASSERT_TRUE(holds(client().acquire({"doc", writer})));
  ASSERT_TRUE(holds(client().downgrade("doc", writer)));
  ASSERT_TRUE(holds(client("bob").acquire({"doc", fresh(), Mode::shared()})));
  const auto first = client("carol").acquire(Request("doc", fresh()).limit(1));
  ASSERT_TRUE(waits(first)) << "nobody waits before it";
  EXPECT_EQ(first->ahead, 0U);
  const auto second = client("dan").acquire(Request("doc", fresh(), Mode::shared()).limit(1));
  EXPECT_TRUE(fails(second, Errc::kQueueFull)) << "one waits before it";
}

TEST_P(ModesConformance, PermitsAreCountedAndGivenInOrder) {
  HOLDFAST_NEEDS(promised().permits, "no permits");
  const auto two = fresh();
  const auto one = fresh();
  const auto three = fresh();
  const auto small = fresh();
  ASSERT_TRUE(holds(client().acquire({"pool", two, Mode::of_permits(2, 4)})));
  ASSERT_TRUE(holds(client().acquire({"pool", one, Mode::of_permits(1, 4)})));
  ASSERT_TRUE(waits(client().acquire({"pool", three, Mode::of_permits(3, 4)})));
  // One would fit, but it came later than the three.
  ASSERT_TRUE(waits(client().acquire({"pool", small, Mode::of_permits(1, 4)})));
  ASSERT_TRUE(ends(client().release("pool", one), EndStatus::kReleased));
  EXPECT_TRUE(waits(client().renew("pool", three, 1)));
  EXPECT_TRUE(waits(client().renew("pool", small, 1)));
  ASSERT_TRUE(ends(client().release("pool", two), EndStatus::kReleased));
  EXPECT_TRUE(holds(client().renew("pool", three, 2)));
  EXPECT_TRUE(holds(client().renew("pool", small, 2)));
  EXPECT_TRUE(
      is_busy(client("bob").acquire(Request("pool", fresh(), Mode::of_permits(1, 4)).no_wait())));
}

TEST_P(ModesConformance, AllUsersAgreeOnTheNumberOfPermits) {
  HOLDFAST_NEEDS(promised().permits, "no permits");
  const auto holder = fresh();
  ASSERT_TRUE(holds(client().acquire({"pool", holder, Mode::of_permits(1, 3)})));
  const auto refused = client("bob").acquire({"pool", fresh(), Mode::of_permits(1, 4)});
  ASSERT_TRUE(fails(refused, Errc::kInvalidArgument));
  EXPECT_NE(refused.error().message().find("3"), std::string::npos);
  EXPECT_TRUE(fails(client("bob").acquire({"pool", fresh()}), Errc::kInvalidArgument));
  EXPECT_TRUE(
      fails(client("bob").acquire({"pool", fresh(), Mode::shared()}), Errc::kInvalidArgument));
  EXPECT_TRUE(holds(client("bob").acquire({"pool", fresh(), Mode::of_permits(2, 3)})));
}

TEST_P(ModesConformance, AMutexIsNotAPoolWhileItIsHeld) {
  HOLDFAST_NEEDS(promised().permits, "no permits");
  const auto holder = fresh();
  ASSERT_TRUE(holds(client().acquire({"orders", holder})));
  EXPECT_TRUE(fails(client("bob").acquire({"orders", fresh(), Mode::of_permits(1, 2)}),
                    Errc::kInvalidArgument));
  ASSERT_TRUE(ends(client().release("orders", holder), EndStatus::kReleased));
  EXPECT_TRUE(holds(client("bob").acquire({"orders", fresh(), Mode::of_permits(1, 2)})));
}

TEST_P(ModesConformance, GrowingAPoolAdmitsAtOnce) {
  HOLDFAST_NEEDS(promised().permits, "no permits");
  const auto waiter = fresh();
  ASSERT_TRUE(holds(client().acquire({"pool", fresh(), Mode::of_permits(2, 2)})));
  ASSERT_TRUE(waits(client("bob").acquire({"pool", waiter, Mode::of_permits(1, 2)})));
  const auto done = client().resize("pool", fresh(), 3);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_TRUE(*done);
  EXPECT_TRUE(client("bob").inbox().next(waiter));
  EXPECT_TRUE(holds(client("bob").renew("pool", waiter, 1)));
  EXPECT_TRUE(holds(client().acquire({"pool2", fresh(), Mode::of_permits(1, 2)})));
}

TEST_P(ModesConformance, ShrinkingAPoolTakesItsTurn) {
  HOLDFAST_NEEDS(promised().permits, "no permits");
  const auto first = fresh();
  const auto second = fresh();
  ASSERT_TRUE(holds(client().acquire({"pool", first, Mode::of_permits(1, 2)})));
  ASSERT_TRUE(holds(client().acquire({"pool", second, Mode::of_permits(1, 2)})));
  const auto queued = client().resize("pool", fresh(), 1);
  ASSERT_TRUE(queued) << queued.error().message();
  EXPECT_FALSE(*queued);
  ASSERT_TRUE(ends(client().release("pool", first), EndStatus::kReleased));
  // Where its client notices that its turn has come, that is a little later.
  const auto until = base::BootClock::now() + kPatience;
  while ((*client("bob").inspect("pool"))->capacity != 1 && base::BootClock::now() < until) {
  }
  EXPECT_TRUE(
      is_busy(client("bob").acquire(Request("pool", fresh(), Mode::of_permits(1, 1)).no_wait())));
  ASSERT_TRUE(ends(client().release("pool", second), EndStatus::kReleased));
  EXPECT_TRUE(holds(client("bob").acquire({"pool", fresh(), Mode::of_permits(1, 1)})));
}

TEST_P(ModesConformance, ARepeatedResizeForWhichTheStepMakesWayIsDone) {
  HOLDFAST_NEEDS_OWN_LEASES();
  HOLDFAST_NEEDS(promised().permits, "no permits");
  const auto stays = Request("pool", fresh(), Mode::of_permits(1, 4)).leases(60s, 60s);
  const auto expires = Request("pool", fresh(), Mode::of_permits(3, 4)).leases(10s, 10s);
  ASSERT_TRUE(holds(client().acquire(stays)));
  ASSERT_TRUE(holds(client().acquire(expires)));
  const auto id = fresh();
  const auto queued = client().resize("pool", id, 2);
  ASSERT_TRUE(queued) << queued.error().message();
  EXPECT_FALSE(*queued);
  pass(10s);
  const auto done = client().resize("pool", id, 2);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_TRUE(*done);
  EXPECT_TRUE(holds(client().acquire(Request("pool", fresh(), Mode::of_permits(1, 2)).no_wait())));
}

TEST_P(ModesConformance, APoolThatNobodyUsesCannotBeResized) {
  HOLDFAST_NEEDS(promised().permits, "no permits");
  EXPECT_TRUE(fails(client().resize("pool", fresh(), 3), Errc::kLost));
}

}  // namespace holdfast::testing
