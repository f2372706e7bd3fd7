// Everything ends by itself, nothing comes back, and no end moves towards us.
#include "tests/conformance/harness.h"

namespace holdfast::testing {

TEST_P(LeaseConformance, AnEndedLeaseIsHandedOnWithAHigherToken) {
  HOLDFAST_NEEDS_OWN_LEASES();
  const auto holder = fresh();
  const auto waiter = fresh();
  const auto first = client().acquire(Request("orders", holder).leases(10s, 5s));
  ASSERT_TRUE(holds(first));
  pass(8s);
  ASSERT_TRUE(waits(client("bob").acquire({"orders", waiter})));
  pass(2s);
  const auto second = client("bob").renew("orders", waiter, 1);
  ASSERT_TRUE(holds(second));
  EXPECT_GT(second->token, first->token);
  EXPECT_TRUE(is_gone(client().renew("orders", holder, 1)));
  EXPECT_TRUE(ends(client().release("orders", holder), EndStatus::kGone));
}

TEST_P(LeaseConformance, ALeaseLastsUntilItsEnd) {
  HOLDFAST_NEEDS_OWN_LEASES();
  ASSERT_TRUE(holds(client().acquire(Request("orders", fresh()).leases(10s, 5s))));
  pass(10s - 1ms);
  EXPECT_TRUE(is_busy(client("bob").acquire(Request("orders", fresh()).no_wait())));
  pass(1ms);
  EXPECT_TRUE(holds(client("bob").acquire(Request("orders", fresh()).no_wait())));
}

TEST_P(LeaseConformance, RenewExtendsFromNow) {
  HOLDFAST_NEEDS_OWN_LEASES();
  const auto id = fresh();
  const auto grant = client().acquire(Request("orders", id).leases(10s, 5s));
  ASSERT_TRUE(holds(grant));
  pass(6s);
  const auto renewed = client().renew("orders", id, 1, 10s);
  ASSERT_TRUE(holds(renewed));
  EXPECT_EQ(renewed->token, grant->token);
  EXPECT_EQ(renewed->seq, 1U);
  EXPECT_EQ(renewed->lease, Duration(10s));
  pass(9s);
  EXPECT_TRUE(is_busy(client("bob").acquire(Request("orders", fresh()).no_wait())));
  pass(1s);
  EXPECT_TRUE(is_gone(client().renew("orders", id, 2, 10s)));
}

TEST_P(LeaseConformance, RenewNeverBringsBackWhatHasEnded) {
  HOLDFAST_NEEDS_OWN_LEASES();
  const auto id = fresh();
  ASSERT_TRUE(holds(client().acquire(Request("orders", id).leases(10s, 5s))));
  pass(10s);
  EXPECT_TRUE(is_gone(client().renew("orders", id, 1)));
  EXPECT_TRUE(is_gone(client().renew("orders", id, 2)));
  EXPECT_TRUE(holds(client("bob").acquire(Request("orders", fresh()).no_wait())));
}

TEST_P(LeaseConformance, ARequestThatIsNotTheNewestChangesNothing) {
  HOLDFAST_NEEDS_OWN_LEASES();
  const auto id = fresh();
  ASSERT_TRUE(holds(client().acquire(Request("orders", id).leases(10s, 5s))));
  ASSERT_TRUE(holds(client().renew("orders", id, 5, 20s)));
  pass(5s);
  for (const std::uint64_t stale : {5U, 4U, 0U}) {
    const auto answer = client().renew("orders", id, stale, 300s);
    ASSERT_TRUE(holds(answer));
    EXPECT_EQ(answer->seq, 5U);
    EXPECT_EQ(answer->lease, Duration(20s));
  }
  pass(15s);
  EXPECT_TRUE(is_gone(client().renew("orders", id, 6)));
}

TEST_P(LeaseConformance, ALeaseEndNeverMovesBack) {
  HOLDFAST_NEEDS_OWN_LEASES();
  const auto id = fresh();
  ASSERT_TRUE(holds(client().acquire(Request("orders", id).leases(20s, 5s))));
  const auto shorter = client().renew("orders", id, 1, 1s);
  ASSERT_TRUE(holds(shorter));
  EXPECT_EQ(shorter->seq, 0U);  // The request that the end still hangs on.
  EXPECT_EQ(shorter->lease, Duration(20s));
  pass(19s);
  EXPECT_TRUE(is_busy(client("bob").acquire(Request("orders", fresh()).no_wait())));
  EXPECT_TRUE(holds(client().renew("orders", id, 2, 10s)));
}

TEST_P(LeaseConformance, AHolderThatLetsGoSaysWhenItsLeaseEnds) {
  HOLDFAST_NEEDS(promised().values, "no values");
  HOLDFAST_NEEDS_OWN_LEASES();
  const auto id = fresh();
  ASSERT_TRUE(holds(client().acquire(Request("orders", id).leases(20s, 5s))));
  ASSERT_TRUE(client().keep("orders", id, 2, 3s, "done"));
  EXPECT_EQ(*client("bob").get_value("orders"), "done");
  const auto late = client().renew("orders", id, 1, 30s);
  ASSERT_TRUE(holds(late));
  EXPECT_EQ(late->seq, 2U);
  EXPECT_EQ(late->lease, Duration(3s));
  pass(2900ms);
  EXPECT_TRUE(is_busy(client("bob").acquire(Request("orders", fresh()).no_wait())));
  pass(101ms);
  EXPECT_TRUE(holds(client("bob").acquire(Request("orders", fresh()).no_wait())));
  EXPECT_TRUE(fails(client().keep("orders", id, 3, 3s, "again"), Errc::kLost));
  EXPECT_EQ(*client("bob").get_value("orders"), "done");
}

TEST_P(LeaseConformance, ALeaseIsKeptForLongerByTheNewestRequestOnly) {
  HOLDFAST_NEEDS(promised().values, "no values");
  HOLDFAST_NEEDS_OWN_LEASES();
  const auto id = fresh();
  ASSERT_TRUE(holds(client().acquire(Request("orders", id).leases(20s, 5s))));
  ASSERT_TRUE(holds(client().renew("orders", id, 5, 25s)));
  EXPECT_TRUE(fails(client().keep("orders", id, 4, 60s, "late"), Errc::kLost));
  EXPECT_EQ(*client().get_value("orders"), "");
  ASSERT_TRUE(client().keep("orders", id, 6, 60s));
  ASSERT_TRUE(client().keep("orders", id, 6, 60s));
  pass(59s);
  EXPECT_TRUE(is_busy(client("bob").acquire(Request("orders", fresh()).no_wait())));
}

TEST_P(LeaseConformance, WhereLeasesEndWithTheirClientNoneIsKept) {
  HOLDFAST_NEEDS(promised().ends_with_client, "leases outlive their client");
  const auto id = fresh();
  ASSERT_TRUE(holds(client().acquire(Request("orders", id))));
  std::optional<Result<bool>> kept;  // Told before the call returns.
  client().store().keep({"orders", id, 1, 60s, std::nullopt, soon()},
                        [&](Result<bool> answer) { kept = std::move(answer); });
  ASSERT_TRUE(kept);
  EXPECT_TRUE(fails(*kept, Errc::kUnsupported));
  EXPECT_TRUE(holds(client().renew("orders", id, 2)));
}

TEST_P(LeaseConformance, AHeartbeatKeepsAWaiterInItsPlace) {
  HOLDFAST_NEEDS_OWN_LEASES();
  const auto holder = fresh();
  const auto waiter = fresh();
  ASSERT_TRUE(holds(client().acquire({"orders", holder})));
  ASSERT_TRUE(waits(client("bob").acquire({"orders", waiter})));
  for (std::uint64_t beat = 1; beat <= 4; ++beat) {
    pass(kWaiterTtl - 1s);
    const auto still = client("bob").renew("orders", waiter, beat);
    ASSERT_TRUE(waits(still));
    EXPECT_EQ(still->seq, beat);
  }
  ASSERT_TRUE(ends(client().release("orders", holder), EndStatus::kReleased));
  EXPECT_TRUE(holds(client("bob").renew("orders", waiter, 5)));
}

TEST_P(LeaseConformance, AWaiterWithoutHeartbeatIsGone) {
  HOLDFAST_NEEDS_OWN_LEASES();
  ASSERT_TRUE(holds(client().acquire({"orders", fresh()})));
  const auto waiter = fresh();
  ASSERT_TRUE(waits(client("bob").acquire({"orders", waiter})));
  pass(kWaiterTtl);
  EXPECT_TRUE(is_gone(client("bob").renew("orders", waiter, 1)));
}

TEST_P(LeaseConformance, ALoneHoldersEndIsSeenByTheNextWhoAsks) {
  HOLDFAST_NEEDS_OWN_LEASES();
  ASSERT_TRUE(holds(client().acquire(Request("orders", fresh()).leases(1s, 1s))));
  pass(100s);
  const auto info = client("bob").inspect("orders");
  ASSERT_TRUE(info);
  if (*info) {
    EXPECT_TRUE((*info)->holders.empty());
  }
  EXPECT_TRUE(holds(client("bob").acquire(Request("orders", fresh()).no_wait())));
}

// No grant is made up for a time when nobody asked: who was over is over.
TEST_P(LeaseConformance, WhenEverybodysLeaseEndedNobodyHolds) {
  HOLDFAST_NEEDS_OWN_LEASES();
  const auto holder = fresh();
  const auto waiter = fresh();
  ASSERT_TRUE(holds(client().acquire(Request("orders", holder).leases(2s, 1s))));
  ASSERT_TRUE(waits(client("bob").acquire({"orders", waiter})));
  pass(60s);
  EXPECT_TRUE(is_gone(client("bob").renew("orders", waiter, 1)));
  EXPECT_TRUE(is_gone(client().renew("orders", holder, 1)));
  EXPECT_TRUE(holds(client("carol").acquire(Request("orders", fresh()).no_wait())));
}

TEST_P(LeaseConformance, OneBadItemOfABatchDoesNotStopTheOthers) {
  HOLDFAST_NEEDS_OWN_LEASES();
  const auto first = fresh();
  const auto second = fresh();
  const auto waiting = fresh();
  ASSERT_TRUE(holds(client().acquire(Request("a", first).leases(10s, 5s))));
  ASSERT_TRUE(holds(client().acquire(Request("b", second).leases(10s, 5s))));
  ASSERT_TRUE(waits(client().acquire(Request("b", waiting).leases(10s, 5s))));
  pass(4s);
  const auto results = client().renew({{"a", first, 1, 10s, 5s},
                                       {"nothing", fresh(), 1, 10s, 5s},
                                       {"a", fresh(), 1, 10s, 5s},
                                       {"b", waiting, 1, 10s, 5s},
                                       {"b", second, 1, 10s, 5s}});
  ASSERT_TRUE(results);
  ASSERT_EQ(results->size(), 5U);
  EXPECT_TRUE(holds((*results)[0]));
  EXPECT_TRUE(is_gone((*results)[1]));
  EXPECT_TRUE(is_gone((*results)[2]));
  EXPECT_TRUE(waits((*results)[3]));
  EXPECT_TRUE(holds((*results)[4]));
  pass(9s);
  EXPECT_TRUE(is_busy(client("bob").acquire(Request("a", fresh()).no_wait())));
  EXPECT_TRUE(is_busy(client("bob").acquire(Request("b", fresh()).no_wait())));
}

TEST_P(LeaseConformance, ALargeBatchIsAnsweredInItsOrder) {
  HOLDFAST_NEEDS_MANY_LOCKS();
  std::vector<port::RenewItem> items;
  for (int i = 0; i < 500; ++i) {
    const std::string name = "bulk/" + std::to_string(i);
    const auto id = fresh();
    if (i % 3 != 0) {
      ASSERT_TRUE(holds(client().acquire({name, id})));
    }
    items.push_back({name, id, 1, kTtl, kWaiterTtl});
  }
  const auto results = client().renew(items);
  ASSERT_TRUE(results);
  ASSERT_EQ(results->size(), items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    ASSERT_TRUE(i % 3 == 0 ? is_gone((*results)[i]) : holds((*results)[i])) << "item " << i;
  }
}

TEST_P(LeaseConformance, AnEmptyBatchIsAnswered) {
  const auto results = client().renew(std::vector<port::RenewItem>{});
  ASSERT_TRUE(results);
  EXPECT_TRUE(results->empty());
}

}  // namespace holdfast::testing
