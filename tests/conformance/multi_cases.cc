// Several locks in one step: all that are free, or none.
#include "tests/conformance/harness.h"

namespace holdfast::testing {
namespace {

::testing::AssertionResult hold_all(const Result<port::Store::Grants>& result, std::size_t count) {
  if (!result) return ::testing::AssertionFailure() << result.error().message();
  if (!*result) return ::testing::AssertionFailure() << "not all were free";
  if ((*result)->size() != count) return ::testing::AssertionFailure() << "not one for each";
  for (const AcquisitionState& state : **result) {
    if (state.status != AcquisitionStatus::kHeld)
      return ::testing::AssertionFailure() << "one is not";
  }
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult are_not_free(const Result<port::Store::Grants>& result) {
  if (!result) return ::testing::AssertionFailure() << result.error().message();
  if (*result) return ::testing::AssertionFailure() << "they are held";
  return ::testing::AssertionSuccess();
}

}  // namespace

TEST_P(MultiConformance, AllThatAreFreeAreHeldInOneStep) {
  HOLDFAST_NEEDS(promised().multi, "one lock at a time");
  const auto a = fresh();
  const auto b = fresh();
  const auto c = fresh();
  const auto all = client().acquire_all({{"a", a}, {"b", b, Mode::shared()}, {"c", c}});
  ASSERT_TRUE(hold_all(all, 3));
  EXPECT_EQ((**all)[0].lease, kTtl);
  EXPECT_TRUE(is_busy(client("bob").acquire(Request("a", fresh()).no_wait())));
  EXPECT_TRUE(holds(client("bob").acquire(Request("b", fresh(), Mode::shared()).no_wait())));
  EXPECT_TRUE(is_busy(client("bob").acquire(Request("c", fresh(), Mode::shared()).no_wait())));
  // Each is a lease like any other.
  EXPECT_TRUE(holds(client().renew("a", a, 1)));
  EXPECT_TRUE(ends(client().release("b", b), EndStatus::kReleased));
  const auto waiter = fresh();
  EXPECT_TRUE(waits(client("bob").acquire({"c", waiter})));
  EXPECT_TRUE(ends(client().release("c", c), EndStatus::kReleased));
  EXPECT_TRUE(holds(client("bob").renew("c", waiter, 1)));
}

TEST_P(MultiConformance, OneThatIsHeldKeepsAllFree) {
  HOLDFAST_NEEDS(promised().multi, "one lock at a time");
  for (const char* held : {"a", "b", "c"}) {
    const auto holder = fresh();
    const auto before = client("bob").acquire({held, holder});
    ASSERT_TRUE(holds(before));
    EXPECT_TRUE(
        are_not_free(client().acquire_all({{"a", fresh()}, {"b", fresh()}, {"c", fresh()}})));
    ASSERT_TRUE(ends(client("bob").release(held, holder), EndStatus::kReleased));
    for (const char* name : {"a", "b", "c"}) {
      const auto probe = fresh();
      EXPECT_TRUE(holds(client("bob").acquire(Request(name, probe).no_wait()))) << held << name;
      EXPECT_TRUE(ends(client("bob").release(name, probe), EndStatus::kReleased));
    }
  }
}

TEST_P(MultiConformance, NothingIsLeftInAQueueThatWasLookedAt) {
  HOLDFAST_NEEDS(promised().multi && promised().list, "one lock at a time, or no list");
  const auto holder = fresh();
  ASSERT_TRUE(holds(client("bob").acquire({"q/b", holder})));
  EXPECT_TRUE(are_not_free(client().acquire_all({{"q/a", fresh()}, {"q/b", fresh()}})));
  const auto seen = client().list("q/");
  ASSERT_TRUE(seen);
  ASSERT_EQ(seen->size(), 1U);
  EXPECT_EQ(seen->front().name, "q/b");
  EXPECT_TRUE(seen->front().waiters.empty());
}

TEST_P(MultiConformance, WhoWaitsIsNotOvertaken) {
  HOLDFAST_NEEDS(promised().multi && promised().shared, "one lock at a time, or no shared");
  const auto reader = fresh();
  const auto writer = fresh();
  ASSERT_TRUE(holds(client("bob").acquire({"b", reader, Mode::shared()})));
  ASSERT_TRUE(waits(client("carol").acquire({"b", writer})));
  EXPECT_TRUE(are_not_free(client().acquire_all({{"a", fresh()}, {"b", fresh(), Mode::shared()}})));
  ASSERT_TRUE(ends(client("bob").release("b", reader), EndStatus::kReleased));
  EXPECT_TRUE(holds(client("carol").renew("b", writer, 1)));
}

TEST_P(MultiConformance, ReadersAndPermitsAreTakenBesideOthers) {
  HOLDFAST_NEEDS(promised().multi && promised().shared && promised().permits, "one at a time");
  ASSERT_TRUE(holds(client("bob").acquire({"doc", fresh(), Mode::shared()})));
  ASSERT_TRUE(holds(client("bob").acquire({"pool", fresh(), Mode::of_permits(2, 4)})));
  const auto all = client().acquire_all(
      {{"doc", fresh(), Mode::shared()}, {"pool", fresh(), Mode::of_permits(2, 4)}});
  EXPECT_TRUE(hold_all(all, 2));
  EXPECT_TRUE(are_not_free(client().acquire_all(
      {{"doc", fresh(), Mode::shared()}, {"pool", fresh(), Mode::of_permits(1, 4)}})));
}

TEST_P(MultiConformance, TheSameRequestAgainGivesTheSameGrants) {
  HOLDFAST_NEEDS_OWN_LEASES();
  HOLDFAST_NEEDS(promised().multi, "one lock at a time");
  const std::vector<Request> requests{{"a", fresh()}, {"b", fresh(), Mode::shared()}};
  const auto first = client().acquire_all(requests);
  ASSERT_TRUE(hold_all(first, 2));
  pass(1s);
  const auto again = client().acquire_all(requests);
  ASSERT_TRUE(hold_all(again, 2));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ((**again)[i].token, (**first)[i].token);
    EXPECT_EQ((**again)[i].seq, (**first)[i].seq);
    EXPECT_EQ((**again)[i].lease, (**first)[i].lease);
  }
  pass(kTtl - 1s);  // They were not extended.
  EXPECT_TRUE(hold_all(client("bob").acquire_all({{"a", fresh()}, {"b", fresh()}}), 2));
}

TEST_P(MultiConformance, ALateRequestAfterTheReleaseTakesNothing) {
  HOLDFAST_NEEDS(promised().multi, "one lock at a time");
  HOLDFAST_NEEDS(site_->refuses_late_requests(), "requests cannot be late");
  const std::vector<Request> requests{{"a", fresh()}, {"b", fresh()}};
  ASSERT_TRUE(hold_all(client().acquire_all(requests), 2));
  const auto ended = client().release_all({{"a", requests[0].id}, {"b", requests[1].id}});
  ASSERT_TRUE(ended);
  ASSERT_EQ(ended->size(), 2U);
  for (const auto& one : *ended) EXPECT_TRUE(ends(one, EndStatus::kReleased));
  EXPECT_TRUE(are_not_free(client().acquire_all(requests)));
  EXPECT_TRUE(hold_all(client("bob").acquire_all({{"a", fresh()}, {"b", fresh()}}), 2));
}

TEST_P(MultiConformance, TokensGrowPerLock) {
  HOLDFAST_NEEDS(promised().multi, "one lock at a time");
  Token last_a;
  Token last_b;
  for (int round = 0; round < 5; ++round) {
    const auto a = fresh();
    const auto b = fresh();
    const auto all = client(round % 2 == 0 ? "alice" : "bob").acquire_all({{"a", a}, {"b", b}});
    ASSERT_TRUE(hold_all(all, 2));
    EXPECT_GT((**all)[0].token, last_a);
    EXPECT_GT((**all)[1].token, last_b);
    last_a = (**all)[0].token;
    last_b = (**all)[1].token;
    // The failure in between took no token that somebody saw.
    EXPECT_TRUE(are_not_free(client("carol").acquire_all({{"a", fresh()}, {"c", fresh()}})));
    Client& holder = client(round % 2 == 0 ? "alice" : "bob");
    ASSERT_TRUE(ends(holder.release("a", a), EndStatus::kReleased));
    ASSERT_TRUE(ends(holder.release("b", b), EndStatus::kReleased));
  }
}

TEST_P(MultiConformance, LeasesThatAreOverStandInNobodysWay) {
  HOLDFAST_NEEDS_OWN_LEASES();
  HOLDFAST_NEEDS(promised().multi, "one lock at a time");
  ASSERT_TRUE(holds(client("bob").acquire(Request("a", fresh()).leases(4s, 4s))));
  ASSERT_TRUE(holds(client("bob").acquire(Request("b", fresh()).leases(4s, 4s))));
  const auto next = fresh();
  ASSERT_TRUE(waits(client("carol").acquire(Request("b", next).leases(30s, 30s))));
  pass(4s);
  EXPECT_TRUE(are_not_free(client().acquire_all({{"a", fresh()}, {"b", fresh()}})));
  EXPECT_TRUE(holds(client("carol").renew("b", next, 1)));
  EXPECT_TRUE(hold_all(client().acquire_all({{"a", fresh()}, {"c", fresh()}}), 2));
}

TEST_P(MultiConformance, WhatIsUsedInAnotherWayIsToldAndNothingTaken) {
  HOLDFAST_NEEDS(promised().multi && promised().permits, "one lock at a time, or no permits");
  ASSERT_TRUE(holds(client("bob").acquire({"pool", fresh(), Mode::of_permits(1, 4)})));
  EXPECT_TRUE(
      fails(client().acquire_all({{"a", fresh()}, {"pool", fresh()}}), Errc::kInvalidArgument));
  EXPECT_TRUE(holds(client("bob").acquire(Request("a", fresh()).no_wait())));
}

TEST_P(MultiConformance, MalformedRequestsAreRefusedWhole) {
  HOLDFAST_NEEDS(promised().multi, "one lock at a time");
  EXPECT_TRUE(fails(client().acquire_all({}), Errc::kInvalidArgument));
  EXPECT_TRUE(fails(client().acquire_all({{"a", fresh()}, {"b", fresh()}, {"a", fresh()}}),
                    Errc::kInvalidArgument));
  EXPECT_TRUE(fails(client().acquire_all({{"a", fresh()}, {"b", AcquisitionId{}}}),
                    Errc::kInvalidArgument));
  EXPECT_TRUE(fails(
      client().acquire_all({{"a", fresh()}, Request("b", fresh()).leases(Duration(0), kWaiterTtl)}),
      Errc::kInvalidArgument));
  std::vector<Request> many;
  for (std::size_t i = 0; i <= port::kMostAtOnce; ++i) {
    many.emplace_back("n" + std::to_string(i), fresh());
  }
  EXPECT_TRUE(fails(client().acquire_all(many), Errc::kInvalidArgument));
  many.pop_back();
  EXPECT_TRUE(hold_all(client().acquire_all(many), port::kMostAtOnce));
  EXPECT_TRUE(is_busy(client("bob").acquire(Request("n63", fresh()).no_wait())));
  EXPECT_TRUE(holds(client("bob").acquire(Request("a", fresh()).no_wait())));
}

TEST_P(MultiConformance, ReleasesTellEachLocksEnd) {
  const auto a = fresh();
  const auto b = fresh();
  const auto waiter = fresh();
  ASSERT_TRUE(holds(client().acquire({"a", a})));
  ASSERT_TRUE(holds(client().acquire({"b", b})));
  ASSERT_TRUE(waits(client("bob").acquire({"b", waiter})));
  const auto ended = client().release_all({{"a", a}, {"never", fresh()}, {"b", b}});
  ASSERT_TRUE(ended);
  ASSERT_EQ(ended->size(), 3U);
  EXPECT_TRUE(ends((*ended)[0], EndStatus::kReleased));
  EXPECT_TRUE(ends((*ended)[1], EndStatus::kGone));
  EXPECT_TRUE(ends((*ended)[2], EndStatus::kReleased));
  EXPECT_TRUE(client("bob").inbox().next(waiter));
  EXPECT_TRUE(holds(client("bob").renew("b", waiter, 1)));
  EXPECT_TRUE(holds(client("bob").acquire(Request("a", fresh()).no_wait())));
}

TEST_P(MultiConformance, TheFormOnTheCallersThreadIsTheSame) {
  HOLDFAST_NEEDS(promised().multi, "one lock at a time");
  const std::vector<Request> requests{{"a", fresh()}, {"b", fresh()}};
  const auto held = client().acquire_all_inline(requests);
  if (!held) GTEST_SKIP() << "skipped: the store has no such form";
  ASSERT_TRUE(hold_all(*held, 2));
  EXPECT_TRUE(is_busy(client("bob").acquire(Request("b", fresh()).no_wait())));
  const auto others = client("bob").acquire_all_inline({{"c", fresh()}, {"b", fresh()}});
  ASSERT_TRUE(others);
  EXPECT_TRUE(are_not_free(*others));
  EXPECT_TRUE(holds(client("bob").acquire(Request("c", fresh()).no_wait())));
}

TEST_P(MultiConformance, AClosedStoreRefusesAll) {
  HOLDFAST_NEEDS(promised().multi, "one lock at a time");
  client().close();
  EXPECT_TRUE(fails(client().acquire_all({{"a", fresh()}}), Errc::kClosed));
}

}  // namespace holdfast::testing
