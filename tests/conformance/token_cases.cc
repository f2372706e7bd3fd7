// Tokens grow from grant to grant, whatever ended the grant before.
#include "tests/conformance/harness.h"

namespace holdfast::testing {

TEST_P(TokenConformance, TokensGrowWhateverEndedTheLastGrant) {
  HOLDFAST_NEEDS_OWN_LEASES();
  Token last{};
  for (int round = 0; round < 4; ++round) {
    for (const std::string how : {"release", "expiry", "break", "cancel"}) {
      if (how == "expiry" && promised().bound_to_client) continue;
      Client& owner = client(round % 2 == 0 ? "alice" : "bob");
      const auto id = fresh();
      const auto grant = owner.acquire(Request("orders", id).leases(10s, 5s).no_wait());
      ASSERT_TRUE(holds(grant)) << how;
      EXPECT_GT(grant->token, last) << "before a " << how;
      last = grant->token;
      if (how == "release") {
        ASSERT_TRUE(ends(owner.release("orders", id), EndStatus::kReleased));
      } else if (how == "expiry") {
        pass(10s);
      } else if (how == "break") {
        ASSERT_TRUE(client().break_lock("orders", grant->token));
      } else {
        ASSERT_TRUE(ends(owner.cancel("orders", id), EndStatus::kReleased));
      }
    }
  }
}

TEST_P(TokenConformance, TokensGrowForEveryModeAndOverChangesOfKind) {
  HOLDFAST_NEEDS(promised().shared && promised().permits, "exclusive locks only");
  Token last{};
  for (const Mode& mode : {Mode::exclusive(), Mode::shared(), Mode::of_permits(1, 2),
                           Mode::of_permits(2, 5), Mode::exclusive()}) {
    const auto id = fresh();
    const auto grant = client().acquire({"orders", id, mode});
    ASSERT_TRUE(holds(grant));
    EXPECT_GT(grant->token, last);
    last = grant->token;
    ASSERT_TRUE(ends(client().release("orders", id), EndStatus::kReleased));
  }
}

TEST_P(TokenConformance, AHandoffGivesAHigherToken) {
  const auto first = fresh();
  const auto second = fresh();
  const auto before = client().acquire({"orders", first});
  ASSERT_TRUE(holds(before));
  ASSERT_TRUE(waits(client("bob").acquire({"orders", second})));
  ASSERT_TRUE(ends(client().release("orders", first), EndStatus::kReleased));
  const auto after = client("bob").renew("orders", second, 1);
  ASSERT_TRUE(holds(after));
  EXPECT_GT(after->token, before->token);
}

TEST_P(TokenConformance, TheTokenStaysWhileTheGrantLasts) {
  HOLDFAST_NEEDS_OWN_LEASES();
  const auto id = fresh();
  const auto grant = client().acquire({"orders", id});
  ASSERT_TRUE(holds(grant));
  EXPECT_GT(grant->token.counter, 0U);
  for (std::uint64_t beat = 1; beat < 4; ++beat) {
    pass(1s);
    const auto renewed = client().renew("orders", id, beat);
    ASSERT_TRUE(holds(renewed));
    EXPECT_EQ(renewed->token, grant->token);
  }
}

TEST_P(TokenConformance, TokensGrowWhenTheStoreIsClosedAndOpenedAgain) {
  Token last{};
  for (int round = 0; round < 3; ++round) {
    if (round > 0) restart();
    for (int i = 0; i < 3; ++i) {
      const auto id = fresh();
      const auto grant = client().acquire({"orders", id});
      ASSERT_TRUE(holds(grant));
      EXPECT_GT(grant->token, last);
      last = grant->token;
      ASSERT_TRUE(ends(client().release("orders", id), EndStatus::kReleased));
    }
  }
}

TEST_P(LiveConformance, TokensGrowWhenTheStoreIsClosedAndOpenedAgain) {
  Token last{};
  for (int round = 0; round < 3; ++round) {
    if (round > 0) restart();
    const auto id = fresh();
    const auto grant = client().acquire({"orders", id});
    ASSERT_TRUE(holds(grant));
    EXPECT_GT(grant->token, last);
    last = grant->token;
    ASSERT_TRUE(ends(client().release("orders", id), EndStatus::kReleased));
  }
}

TEST_P(LiveConformance, ALockOutlivesTheClientThatTookItByItsLeaseOnly) {
  HOLDFAST_NEEDS_OWN_LEASES();
  const auto id = fresh();
  auto& bob = client("bob");  // Keeps a store that lives in memory alive.
  ASSERT_TRUE(holds(client().acquire(Request("orders", id).leases(400ms, 400ms))));
  client().close();
  ASSERT_TRUE(is_busy(bob.acquire(Request("orders", fresh()).no_wait())));
  const auto waiter = fresh();
  const auto asked = bob.acquire(Request("orders", waiter).leases(30s, 30s));
  ASSERT_TRUE(waits(asked));
  ASSERT_TRUE(asked->next_expiry);
  EXPECT_LE(*asked->next_expiry, Duration(400ms));
  pass(*asked->next_expiry + 1ms);
  EXPECT_TRUE(holds(bob.renew("orders", waiter, 1)));
}

}  // namespace holdfast::testing
