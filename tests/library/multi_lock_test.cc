// Several locks as one.
#include "tests/library/fixture.h"

namespace holdfast::testing {

class MultiLockTest : public LibraryTest {
 protected:
  static LeaseSet take_all(const Client& client, std::vector<LockRequest> locks,
                           AcquireOptions options = {}) {
    auto set = client.acquire_all(std::move(locks), std::move(options));
    if (!set) {
      ADD_FAILURE() << set.error().message();
      std::abort();
    }
    return *std::move(set);
  }
  static bool try_gets(const Client& client, std::vector<LockRequest> locks) {
    auto set = client.try_acquire_all(std::move(locks));
    EXPECT_TRUE(set) << set.error().message();
    return set && set->has_value();
  }
  // Nobody holds or waits.
  static bool are_free(const Client& client, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const auto seen = client.inspect(name);
      EXPECT_TRUE(seen) << seen.error().message();
      if (!seen || (*seen && !((*seen)->holders.empty() && (*seen)->waiters.empty()))) return false;
    }
    return true;
  }
  // So many, or until it is not held any more.
  static void await_renewals(const Client& client, const std::string& name, int count) {
    auto left = 0ms;
    for (bool held = false; count >= 0;) {
      const auto seen = client.inspect(name);
      const bool is_held = seen && *seen && !(*seen)->holders.empty();
      if (held && !is_held) return;
      held = is_held;
      const auto now = is_held ? (*seen)->holders.front().time_left : 0ms;
      if (now > left) --count;  // The grant is the first one.
      left = now;
      std::this_thread::sleep_for(1ms);
    }
  }
};
HOLDFAST_ON_EVERY_STORE(MultiLockTest);

TEST_P(MultiLockTest, AllAreHeldAndGivenBackTogether) {
  const Client alice = connect();
  const Client bob = connect();
  LeaseSet set = take_all(alice, {{"c"}, {"a"}, {"b", Mode::shared()}});
  EXPECT_EQ(set.names(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_TRUE(set.held());
  EXPECT_GT(set.remaining(), 1s);
  EXPECT_GT(set.token("a"), Token{});
  EXPECT_EQ(set.token("a"), set.lease("a")->token());
  EXPECT_EQ(set.token("none"), Token{});
  EXPECT_EQ(set.lease("none"), nullptr);
  EXPECT_FALSE(is_free(bob.mutex("a")));
  EXPECT_FALSE(is_free(bob.mutex("c")));
  EXPECT_TRUE(try_gets(bob, {{"b", Mode::shared()}}));
  EXPECT_FALSE(try_gets(bob, {{"b"}}));
  const auto released = set.release();
  EXPECT_TRUE(released) << released.error().message();
  EXPECT_FALSE(set.held());
  EXPECT_EQ(set.remaining(), 0ms);
  EXPECT_TRUE(set.release());  // The same answer.
  EXPECT_TRUE(are_free(bob, {"a", "b", "c"}));
}

TEST_P(MultiLockTest, TryingTakesAllOrNothing) {
  const Client alice = connect();
  const Client bob = connect();
  const Lease held = take(bob.mutex("b"));
  EXPECT_FALSE(try_gets(alice, {{"a"}, {"b"}, {"c"}}));
  EXPECT_TRUE(are_free(alice, {"a", "c"}));
  EXPECT_TRUE(try_gets(alice, {{"a"}, {"c"}}));
}

TEST_P(MultiLockTest, WaitsForTheOneThatIsHeldAndRenewsTheOthersMeanwhile) {
  const Client alice = connect();
  const Client bob = connect();
  bool got = false;
  for (int attempt = 0; attempt < 5 && !got; ++attempt) {  // This machine may stand still.
    Lease held = take(bob.mutex("b"), {.ttl = 60s});
    auto all = std::async(std::launch::async, [&] {
      return alice.acquire_all({{"b"}, {"a"}, {"c"}}, {.wait = 60s, .ttl = 600ms});
    });
    await_renewals(bob, "a", 4);  // More than one lease, which is renewed every third of it.
    EXPECT_TRUE(are_free(bob, {"c"}));
    ASSERT_TRUE(held.release());
    auto set = all.get();
    got = set && set->held();
    EXPECT_TRUE(set || fails_with(set, Errc::kLost));
  }
  EXPECT_TRUE(got);
}

TEST_P(MultiLockTest, ItIsToldOnceThatItWaits) {
  const Client alice = connect();
  const Client bob = connect();
  Lease a = take(bob.mutex("a"));
  Lease b = take(bob.mutex("b"));
  std::atomic<int> told{0};
  AcquireOptions options{.wait = 60s};
  options.on_queued = [&](std::uint32_t) { ++told; };
  auto all = std::async(std::launch::async, [&] {
    return alice.acquire_all({{"a"}, {"b"}}, options);
  });
  const auto waits_for = [&](const char* name) {
    const auto seen = bob.inspect(name);
    return seen && *seen && !(*seen)->waiters.empty();
  };
  // A wait that is over is not told of any more.
  while (!waits_for("a") || told == 0) std::this_thread::sleep_for(1ms);
  ASSERT_TRUE(a.release());
  while (!waits_for("b")) std::this_thread::sleep_for(1ms);
  ASSERT_TRUE(b.release());
  EXPECT_TRUE(all.get());
  EXPECT_EQ(told, 1);
}

TEST_P(MultiLockTest, OneDeadlineCoversAllAndNothingStays) {
  const Client alice = connect();
  const Client bob = connect();
  const Lease b = take(bob.mutex("b"));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(
      fails_with(alice.acquire_all({{"a"}, {"b"}, {"c"}}, {.wait = 300ms}), Errc::kTimedOut));
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, 300ms);
  EXPECT_LT(took, 20s);
  EXPECT_TRUE(are_free(bob, {"a", "c"}));
  const auto seen = bob.inspect("b");
  ASSERT_TRUE(seen && *seen);
  EXPECT_TRUE((*seen)->waiters.empty());
  EXPECT_TRUE(fails_with(alice.acquire_all({{"a"}, {"b"}}, {.wait = 0ms}), Errc::kTimedOut));
}

TEST_P(MultiLockTest, WhoLosesOneWhileItWaitsForAnotherIsToldAtOnce) {
  const Client alice = connect();
  const Client bob = connect();
  const Lease held = take(bob.mutex("c"), {.ttl = 60s});
  std::stop_source stop;
  // Without a limit: only the loss can end it.
  auto all = std::async(std::launch::async, [&] {
    return alice.acquire_all({{"a"}, {"b"}, {"c"}}, {.ttl = 10s, .cancel = stop.get_token()});
  });
  std::optional<Token> token;
  while (!token) {
    std::this_thread::sleep_for(1ms);
    const auto seen = bob.inspect("b");
    if (seen && *seen && !(*seen)->holders.empty()) token = (*seen)->holders.front().token;
  }
  ASSERT_TRUE(bob.break_lock("b", *token, "for a test"));
  const auto ended = all.wait_for(30s);
  stop.request_stop();
  ASSERT_EQ(ended, std::future_status::ready);
  const auto set = all.get();
  ASSERT_TRUE(fails_with(set, Errc::kLost));
  EXPECT_NE(set.error().message().find("'b'"), std::string::npos) << set.error().message();
  EXPECT_TRUE(held.held());
  EXPECT_TRUE(are_free(bob, {"a", "b"}));
}

TEST_P(MultiLockTest, ACancelledWaitGivesBackWhatItHas) {
  const Client alice = connect();
  const Client bob = connect();
  const Lease held = take(bob.mutex("b"));
  std::stop_source stop;
  auto all = std::async(std::launch::async, [&] {
    return alice.acquire_all({{"a"}, {"b"}}, {.wait = 60s, .cancel = stop.get_token()});
  });
  while (are_free(bob, {"a"})) std::this_thread::sleep_for(1ms);
  stop.request_stop();
  EXPECT_TRUE(fails_with(all.get(), Errc::kCancelled));
  EXPECT_TRUE(are_free(bob, {"a"}));
}

TEST_P(MultiLockTest, WhateverTheOrderNobodyWaitsForEachOther) {
  const Client alice = connect();
  const Client bob = connect();
  int counter = 0;
  const auto work = [&](const Client& client, const std::vector<LockRequest>& locks) {
    for (int round = 0; round < 20; ++round) {
      LeaseSet set = take_all(client, locks, {.wait = 60s});
      ++counter;
      EXPECT_TRUE(set.release());
    }
  };
  std::thread one(work, alice, std::vector<LockRequest>{{"a"}, {"b"}, {"c"}});
  std::thread two(work, bob, std::vector<LockRequest>{{"c"}, {"b"}, {"a"}});
  one.join();
  two.join();
  EXPECT_EQ(counter, 40);
}

TEST_P(MultiLockTest, ANameTwiceInTheSameModeIsAskedForOnce) {
  const Client client = connect();
  const LeaseSet set = take_all(client, {{"a"}, {"b"}, {"a"}});
  EXPECT_EQ(set.size(), 2U);
  EXPECT_TRUE(
      fails_with(client.acquire_all({{"x"}, {"x", Mode::shared()}}), Errc::kInvalidArgument));
  EXPECT_TRUE(
      fails_with(client.acquire_all({{"x", Mode::permits(1, 4)}, {"x", Mode::permits(1, 4)}}),
                 Errc::kInvalidArgument));
  EXPECT_TRUE(fails_with(client.acquire_all({}), Errc::kInvalidArgument));
  EXPECT_TRUE(fails_with(client.acquire_all({{"x"}, {""}}), Errc::kInvalidArgument));
  std::vector<LockRequest> many;
  for (int i = 0; i < 65; ++i) many.push_back({"n" + std::to_string(i)});
  EXPECT_TRUE(fails_with(client.try_acquire_all(many), Errc::kInvalidArgument));
  EXPECT_TRUE(are_free(client, {"x", "n0"}));
}

TEST_P(MultiLockTest, ALossOfOneIsALossOfTheSet) {
  const Client alice = connect();
  const Client bob = connect();
  LeaseSet set = take_all(alice, {{"a"}, {"b"}}, {.ttl = 60s});  // The break is pushed.
  const std::stop_token lost = set.lost();
  EXPECT_FALSE(lost.stop_requested());
  EXPECT_FALSE(set.loss());
  ASSERT_TRUE(bob.break_lock("b", set.token("b"), "because"));
  EXPECT_TRUE(fires(lost, 60s));
  EXPECT_FALSE(set.held());
  EXPECT_TRUE(set.lease("a")->held());
  ASSERT_TRUE(set.loss());
  const auto released = set.release();
  ASSERT_FALSE(released);
  EXPECT_NE(released.error().message().find("'b'"), std::string::npos);
  EXPECT_EQ(released.error().message().find("'a'"), std::string::npos);
  EXPECT_TRUE(are_free(bob, {"a", "b"}));
}

TEST_P(MultiLockTest, AMovedSetIsEmptyAndADroppedOneGivesBack) {
  const Client client = connect();
  {
    LeaseSet set = take_all(client, {{"a"}, {"b"}});
    const LeaseSet taken = std::move(set);
    EXPECT_TRUE(taken.held());
    EXPECT_FALSE(set.held());  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(set.size(), 0U);
    EXPECT_TRUE(fails_with(set.release(), Errc::kInvalidArgument));
    EXPECT_FALSE(set.lost().stop_possible());
  }
  EXPECT_TRUE(client.acquire_all({{"a"}, {"b"}}, {.wait = 60s}));
}

TEST_P(MultiLockTest, AClosedClientTakesNothing) {
  Client client = connect();
  LeaseSet set = take_all(client, {{"a"}, {"b"}});
  ASSERT_TRUE(client.close());
  EXPECT_FALSE(set.held());
  EXPECT_FALSE(set.release());
  EXPECT_TRUE(fails_with(client.acquire_all({{"a"}}), Errc::kClosed));
  EXPECT_TRUE(are_free(connect(), {"a", "b"}));
}

}  // namespace holdfast::testing
