// Leases that outlive their client, in the store's own time. Lengths are those of the shortest
// session; where leases are the store's own, a store may end them late, but never early.
#include <algorithm>
#include <string>

#include "tests/conformance/harness.h"

namespace holdfast::testing {

TEST_P(KeptConformance, ALeaseOutlivesItsClient) {
  const auto id = fresh();
  const auto grant = client().acquire(kept("orders", id));
  ASSERT_TRUE(holds(grant));
  EXPECT_LE(grant->lease, kLong);
  client().close();
  EXPECT_TRUE(is_held("orders"));
  const auto taken = adopt("bob", "orders", id, 1000);
  ASSERT_TRUE(holds(taken));
  EXPECT_EQ(taken->token, grant->token);
  EXPECT_EQ(taken->seq, 1000U);
  EXPECT_TRUE(ends(client("bob").release("orders", id), EndStatus::kReleased));
  EXPECT_TRUE(comes_free("orders", 10s));
}

TEST_P(KeptConformance, ItEndsByItself) {
  ASSERT_TRUE(holds(client().acquire(kept("orders", fresh(), shortest()))));
  client().close();
  EXPECT_TRUE(is_held("orders"));
  EXPECT_TRUE(comes_free("orders", 60s));
}

TEST_P(KeptConformance, AHolderThatLetsGoLeavesItsValue) {
  HOLDFAST_NEEDS(promised().values, "no values");
  const auto id = fresh();
  ASSERT_TRUE(holds(client().acquire(kept("orders", id))));
  const auto set = client().keep("orders", id, 2, kLong, "done");
  ASSERT_TRUE(set) << set.error().message();
  client().close();
  EXPECT_TRUE(is_held("orders"));
  EXPECT_EQ(*client("bob").get_value("orders"), "done");
  const auto late = adopt("bob", "orders", id, 1);
  ASSERT_TRUE(holds(late));
  EXPECT_EQ(late->seq, 2U);
}

TEST_P(KeptConformance, AnOrdinaryLeaseIsKeptWhenItsHolderLetsGo) {
  const auto id = fresh();
  const auto grant = client().acquire(Request("orders", id));
  ASSERT_TRUE(holds(grant));
  ASSERT_TRUE(client().keep("orders", id, 1, kLong));
  // Its name in the queue is not used again.
  const auto other = fresh();
  ASSERT_TRUE(waits(client().acquire({"orders", other})));
  ASSERT_TRUE(ends(client().cancel("orders", other), EndStatus::kCancelled));
  client().close();
  const auto taken = adopt("bob", "orders", id, 1000);
  ASSERT_TRUE(holds(taken));
  EXPECT_EQ(taken->token, grant->token);
}

TEST_P(KeptConformance, TheNewestRequestForALeaseCounts) {
  const auto id = fresh();
  ASSERT_TRUE(holds(client().acquire(kept("orders", id))));
  ASSERT_TRUE(holds(adopt("bob", "orders", id, 1000)));
  const auto first = client().renew("orders", id, 5, kLong, kWaiterTtl);
  ASSERT_TRUE(holds(first));
  // Stores that run the lock machine name the request that set the end: the later one, if time
  // went on in between.
  const bool by_end = !promised().bound_to_client;
  EXPECT_TRUE(first->seq == 1000U || (by_end && first->seq == 5U))
      << first->seq << ": it does not say that another client has renewed it";
  const auto again = client("bob").renew("orders", id, 1001, kLong, kWaiterTtl);
  ASSERT_TRUE(holds(again));
  EXPECT_TRUE(again->seq == 1001U || (by_end && again->seq == first->seq)) << again->seq;
}

TEST_P(KeptConformance, AWaiterIsKeptFromItsGrantOn) {
  const auto holder = fresh();
  const auto waiter = fresh();
  const auto first = client().acquire(kept("orders", holder));
  ASSERT_TRUE(holds(first));
  ASSERT_TRUE(waits(client("bob").acquire(kept("orders", waiter))));
  ASSERT_TRUE(ends(client().release("orders", holder), EndStatus::kReleased));
  const auto push = client("bob").inbox().next(waiter);
  ASSERT_TRUE(push);
  const auto second = client("bob").renew("orders", waiter, 1, kLong, kWaiterTtl);
  ASSERT_TRUE(holds(second));
  EXPECT_GT(second->token, first->token);
  client("bob").close();
  EXPECT_TRUE(is_held("orders"));
}

TEST_P(KeptConformance, ASharedLeaseIsKeptAndADowngradedOneStaysKept) {
  HOLDFAST_NEEDS(promised().shared, "shared locks");
  const auto writer = fresh();
  const auto reader = fresh();
  ASSERT_TRUE(holds(client().acquire(kept("orders", writer))));
  ASSERT_TRUE(holds(client().downgrade("orders", writer)));
  Request shared = kept("orders", reader);
  shared.mode = Mode::shared();
  ASSERT_TRUE(holds(client().acquire(shared)));
  client().close();
  EXPECT_TRUE(is_held("orders"));
  ASSERT_TRUE(holds(adopt("bob", "orders", writer, 1000)));
  EXPECT_TRUE(ends(client("bob").release("orders", writer), EndStatus::kReleased));
  EXPECT_TRUE(is_held("orders"));
  ASSERT_TRUE(holds(adopt("bob", "orders", reader, 1000)));
  EXPECT_TRUE(ends(client("bob").release("orders", reader), EndStatus::kReleased));
  EXPECT_TRUE(comes_free("orders", 10s));
}

TEST_P(KeptConformance, ABreakEndsIt) {
  HOLDFAST_NEEDS_OWN_FORM();
  const auto id = fresh();
  const auto grant = client().acquire(kept("orders", id));
  ASSERT_TRUE(holds(grant));
  ASSERT_TRUE(client("operator").break_lock("orders", grant->token, "stuck"));
  EXPECT_TRUE(comes_free("orders", 10s));
  const auto told = client().renew("orders", id, 1, kLong, kWaiterTtl);
  EXPECT_TRUE(!told || told->status == AcquisitionStatus::kGone);
  EXPECT_TRUE(is_gone(adopt("bob", "orders", id, 1000)));
}

TEST_P(KeptConformance, WhatWasNeverKeptIsNotAdopted) {
  EXPECT_TRUE(is_gone(adopt("bob", "orders", fresh(), 1000)));
}

TEST_P(KeptConformance, AKeptHolderSetsTheValueUntilItEnds) {
  HOLDFAST_NEEDS(promised().values, "values");
  const auto id = fresh();
  ASSERT_TRUE(holds(client().acquire(kept("orders", id))));
  ASSERT_TRUE(client().set_value("orders", id, "one"));
  ASSERT_TRUE(holds(client().renew("orders", id, 1, kLong, kWaiterTtl)));
  ASSERT_TRUE(client().set_value("orders", id, "two"));
  EXPECT_EQ(*client("bob").get_value("orders"), "two");
  ASSERT_TRUE(ends(client().release("orders", id), EndStatus::kReleased));
  EXPECT_TRUE(fails(client().set_value("orders", id, "three"), Errc::kLost));
}

}  // namespace holdfast::testing
