// A lost reply can be asked for again, a late duplicate is harmless.
#include "tests/conformance/harness.h"

namespace holdfast::testing {

TEST_P(IdempotenceConformance, AcquireOfAnIdThatHoldsGivesTheSameGrant) {
  HOLDFAST_NEEDS_OWN_LEASES();
  const auto id = fresh();
  const auto first = client().acquire({"orders", id});
  ASSERT_TRUE(holds(first));
  pass(1s);
  const auto again = client().acquire({"orders", id});
  ASSERT_TRUE(holds(again));
  EXPECT_EQ(again->token, first->token);
  EXPECT_EQ(again->seq, first->seq);
  // The rest of a session was counted again.
  if (!promised().bound_to_client) {
    EXPECT_EQ(again->lease, first->lease);
  }
}

TEST_P(IdempotenceConformance, ARepeatedAcquireDoesNotExtendTheLease) {
  HOLDFAST_NEEDS_OWN_LEASES();
  const auto id = fresh();
  ASSERT_TRUE(holds(client().acquire(Request("orders", id).leases(10s, 5s))));
  pass(6s);
  ASSERT_TRUE(holds(client().acquire(Request("orders", id).leases(10s, 5s))));
  pass(5s);
  EXPECT_TRUE(holds(client("bob").acquire(Request("orders", fresh()).no_wait())));
}

TEST_P(IdempotenceConformance, AcquireOfAnIdThatWaitsKeepsItsPlace) {
  const auto holder = fresh();
  const auto first = fresh();
  const auto second = fresh();
  ASSERT_TRUE(holds(client().acquire({"orders", holder})));
  ASSERT_TRUE(waits(client().acquire({"orders", first})));
  ASSERT_TRUE(waits(client().acquire({"orders", second})));
  EXPECT_TRUE(waits(client().acquire({"orders", first})));
  ASSERT_TRUE(ends(client().release("orders", holder), EndStatus::kReleased));
  EXPECT_TRUE(holds(client().renew("orders", first, 1)));
  EXPECT_TRUE(waits(client().renew("orders", second, 1)));
}

TEST_P(IdempotenceConformance, AnotherClientOfTheSameIdGetsTheSameGrant) {
  HOLDFAST_NEEDS_KEPT_WAITERS();
  HOLDFAST_NEEDS_OWN_LEASES();
  HOLDFAST_NEEDS(site_->decides_at_once(), "another client waits in front, until a renewal");
  const auto id = fresh();
  const auto first = client().acquire({"orders", id});
  const auto again = client("bob").acquire({"orders", id});
  ASSERT_TRUE(holds(first));
  ASSERT_TRUE(holds(again));
  EXPECT_EQ(again->token, first->token);
}

TEST_P(IdempotenceConformance, AnUnknownIdIsGoneAndNothingChanges) {
  const auto holder = fresh();
  const auto waiter = fresh();
  const auto stranger = fresh();
  const auto grant = client().acquire({"orders", holder});
  ASSERT_TRUE(holds(grant));
  ASSERT_TRUE(waits(client().acquire({"orders", waiter})));

  EXPECT_TRUE(is_gone(client().renew("orders", stranger, 1)));
  EXPECT_TRUE(ends(client().release("orders", stranger), EndStatus::kGone));
  EXPECT_TRUE(ends(client().cancel("orders", fresh()), EndStatus::kGone));
  EXPECT_TRUE(is_gone(client().downgrade("orders", fresh())));
  if (promised().values) {
    EXPECT_TRUE(fails(client().set_value("orders", fresh(), "v"), Errc::kLost));
  }

  const auto still = client().renew("orders", holder, 1);
  ASSERT_TRUE(holds(still));
  EXPECT_EQ(still->token, grant->token);
  EXPECT_TRUE(waits(client().renew("orders", waiter, 1)));
}

TEST_P(IdempotenceConformance, AnUnknownNameIsGoneAndNothingAppears) {
  EXPECT_TRUE(is_gone(client().renew("nobody/ever", fresh(), 1)));
  EXPECT_TRUE(ends(client().release("nobody/ever", fresh()), EndStatus::kGone));
  EXPECT_TRUE(ends(client().cancel("nobody/ever", fresh()), EndStatus::kGone));
  if (promised().list) {
    const auto known = client().list("nobody/");
    ASSERT_TRUE(known);
    EXPECT_TRUE(known->empty());
  }
}

TEST_P(IdempotenceConformance, AnIdCountsForItsOwnLockOnly) {
  const auto id = fresh();
  ASSERT_TRUE(holds(client().acquire({"orders", id})));
  EXPECT_TRUE(is_gone(client().renew("invoices", id, 1)));
  EXPECT_TRUE(ends(client().release("invoices", id), EndStatus::kGone));
  EXPECT_TRUE(holds(client().renew("orders", id, 1)));
}

TEST_P(IdempotenceConformance, ASecondReleaseSaysGone) {
  const auto id = fresh();
  ASSERT_TRUE(holds(client().acquire({"orders", id})));
  EXPECT_TRUE(ends(client().release("orders", id), EndStatus::kReleased));
  EXPECT_TRUE(ends(client().release("orders", id), EndStatus::kGone));
}

TEST_P(IdempotenceConformance, AZombieReleaseCannotFreeTheNextGrant) {
  const auto first = fresh();
  const auto second = fresh();
  ASSERT_TRUE(holds(client().acquire({"orders", first})));
  ASSERT_TRUE(ends(client().release("orders", first), EndStatus::kReleased));
  ASSERT_TRUE(holds(client("bob").acquire({"orders", second})));
  EXPECT_TRUE(ends(client().release("orders", first), EndStatus::kGone));
  EXPECT_TRUE(ends(client().cancel("orders", first), EndStatus::kGone));
  EXPECT_TRUE(is_gone(client().renew("orders", first, 7)));
  EXPECT_TRUE(holds(client("bob").renew("orders", second, 1)));
  EXPECT_TRUE(is_busy(client().acquire(Request("orders", fresh()).no_wait())));
}

TEST_P(IdempotenceConformance, ADuplicateAcquireAfterItsReleaseGrantsNobody) {
  HOLDFAST_NEEDS(site_->refuses_late_requests(), "requests of one client cannot be late");
  const auto id = fresh();
  ASSERT_TRUE(holds(client().acquire({"orders", id})));
  ASSERT_TRUE(ends(client().release("orders", id), EndStatus::kReleased));
  EXPECT_TRUE(is_gone(client().acquire({"orders", id})));
  EXPECT_TRUE(holds(client("bob").acquire(Request("orders", fresh()).no_wait())));
}

TEST_P(IdempotenceConformance, ACancelThatOvertakesItsAcquireIsObeyed) {
  HOLDFAST_NEEDS(site_->refuses_late_requests(), "requests of one client cannot be late");
  const auto id = fresh();
  EXPECT_TRUE(ends(client().cancel("orders", id), EndStatus::kGone));
  EXPECT_TRUE(is_gone(client().acquire({"orders", id})));
  EXPECT_TRUE(holds(client("bob").acquire(Request("orders", fresh()).no_wait())));
}

TEST_P(IdempotenceConformance, CancelOfAGrantedIdHandsOn) {
  const auto holder = fresh();
  const auto crossed = fresh();
  const auto next = fresh();
  ASSERT_TRUE(holds(client().acquire({"orders", holder})));
  ASSERT_TRUE(waits(client().acquire({"orders", crossed})));
  ASSERT_TRUE(waits(client("bob").acquire({"orders", next})));
  ASSERT_TRUE(ends(client().release("orders", holder), EndStatus::kReleased));
  const auto ended = client().cancel("orders", crossed);
  // Where clients find out by themselves that they hold, this one may not have yet.
  const bool by_themselves = promised().bound_to_client || !site_->decides_at_once() ||
                             !site_->keeps_waiters();
  const bool before = by_themselves && ended && *ended == EndStatus::kCancelled;
  EXPECT_TRUE(before || ends(ended, EndStatus::kReleased));
  if (!site_->keeps_waiters()) {
    const auto push = client("bob").inbox().next(next, 10s);
    ASSERT_TRUE(push) << "bob was told nothing";
  }
  EXPECT_TRUE(holds(client("bob").renew("orders", next, 1)));
}

TEST_P(IdempotenceConformance, ReleaseOfAWaiterLeavesTheQueue) {
  const auto holder = fresh();
  const auto waiter = fresh();
  ASSERT_TRUE(holds(client().acquire({"orders", holder})));
  ASSERT_TRUE(waits(client().acquire({"orders", waiter})));
  EXPECT_TRUE(ends(client().release("orders", waiter), EndStatus::kCancelled));
  EXPECT_TRUE(ends(client().release("orders", holder), EndStatus::kReleased));
  EXPECT_TRUE(is_gone(client().renew("orders", waiter, 1)));
}

TEST_P(IdempotenceConformance, ABusyAnswerLeavesNothingBehind) {
  const auto holder = fresh();
  const auto tried = fresh();
  ASSERT_TRUE(holds(client().acquire({"orders", holder})));
  const auto busy = client("bob").acquire(Request("orders", tried).no_wait());
  ASSERT_TRUE(is_busy(busy));
  if (!promised().bound_to_client) {
    ASSERT_TRUE(busy->next_expiry);
    EXPECT_LE(*busy->next_expiry, kTtl);
    EXPECT_GT(*busy->next_expiry, kTtl - 10s);
  }
  EXPECT_TRUE(is_gone(client("bob").renew("orders", tried, 1)));
  ASSERT_TRUE(ends(client().release("orders", holder), EndStatus::kReleased));
  EXPECT_TRUE(holds(client("bob").acquire(Request("orders", fresh()).no_wait())));
}

TEST_P(IdempotenceConformance, MalformedRequestsAreRefusedAndChangeNothing) {
  EXPECT_TRUE(fails(client().acquire({"orders", {}}), Errc::kInvalidArgument));
  EXPECT_TRUE(
      fails(client().acquire(Request("orders", fresh()).leases(0s, 1s)), Errc::kInvalidArgument));
  EXPECT_TRUE(
      fails(client().acquire(Request("orders", fresh()).leases(1s, 0s)), Errc::kInvalidArgument));
  if (promised().permits) {
    EXPECT_TRUE(fails(client().acquire({"orders", fresh(), Mode::of_permits(0, 3)}),
                      Errc::kInvalidArgument));
    EXPECT_TRUE(fails(client().acquire({"orders", fresh(), Mode::of_permits(4, 3)}),
                      Errc::kInvalidArgument));
  }
  EXPECT_TRUE(holds(client().acquire(Request("orders", fresh()).no_wait())));
}

}  // namespace holdfast::testing
