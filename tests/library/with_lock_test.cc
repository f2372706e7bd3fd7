// An action under a lock: what it answers, and that the lock is given back.
#include "holdfast/with_lock.h"

#include <stdexcept>

#include "tests/library/fixture.h"

namespace holdfast::testing {

class WithLockTest : public LibraryTest {};
HOLDFAST_ON_EVERY_STORE(WithLockTest);

TEST_P(WithLockTest, TheActionHasTheLeaseAndItsValueIsTheAnswer) {
  const Client client = connect();
  Mutex order = client.mutex("orders/42");
  const auto answer = with_lock(order, {.wait = 5s}, [&](Lease& lease) {
    EXPECT_TRUE(lease.held());
    EXPECT_FALSE(is_free(client.mutex("orders/42")));
    return lease.token();
  });
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_GT(*answer, Token());
  EXPECT_TRUE(is_free(order));
}

TEST_P(WithLockTest, AResultIsPassedOnAndNothingIsEnough) {
  const Client client = connect();
  Mutex order = client.mutex("orders/42");
  const Result<int> failed = with_lock(order, {}, [](Lease&) -> Result<int> {
    return Error(Errc::kUnavailable, "the card's bank does not answer");
  });
  EXPECT_TRUE(fails_with(failed, Errc::kUnavailable));
  int calls = 0;
  const Result<void> done = with_lock(order, {}, [&](Lease&) { ++calls; });
  EXPECT_TRUE(done);
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(is_free(order));
}

TEST_P(WithLockTest, WithoutTheLockTheOtherIsCalled) {
  const Client client = connect();
  const Lease held = take(connect().mutex("orders/42"));
  Mutex order = client.mutex("orders/42");
  int calls = 0;
  const auto action = [&](Lease&) { return ++calls; };
  const auto answer = with_lock(order, {.wait = 0ms}, action, [](const Error& why) {
    EXPECT_EQ(why.code(), Errc::kTimedOut) << why.message();
    return -1;
  });
  ASSERT_TRUE(answer);
  EXPECT_EQ(*answer, -1);
  EXPECT_TRUE(fails_with(with_lock(order, {.wait = 0ms}, action), Errc::kTimedOut));
  EXPECT_TRUE(fails_with(with_lock([&] { return order.try_acquire(); }, action), Errc::kTimedOut));
  EXPECT_EQ(calls, 0);
}

TEST_P(WithLockTest, AnExceptionPassesThroughAfterTheRelease) {
  const Client client = connect();
  Mutex order = client.mutex("orders/42");
  const auto throws = [](Lease&) -> int { throw std::runtime_error("no paper"); };
  EXPECT_THROW(static_cast<void>(with_lock(order, {}, throws)), std::runtime_error);
  EXPECT_TRUE(is_free(order));
}

TEST_P(WithLockTest, ALossDuringTheActionIsTheAnswer) {
  const Client client = connect();
  const Client other = connect();
  Mutex order = client.mutex("orders/42");
  const auto answer = with_lock(order, {}, [&](Lease& lease) {
    EXPECT_TRUE(other.break_lock("orders/42", lease.token(), "a test"));
    EXPECT_TRUE(fires(lease.lost()));
    return 1;
  });
  EXPECT_TRUE(fails_with(answer, Errc::kBroken));
}

TEST_P(WithLockTest, EveryPrimitiveGivesALock) {
  const Client client = connect();
  int calls = 0;
  const auto count = [&](auto&) { ++calls; };
  SharedMutex prices = client.shared_mutex("prices");
  Semaphore pool = client.semaphore("pool", 3);
  StripedMutex users = client.striped_mutex("users", 8);
  RecursiveMutex tree = client.recursive_mutex("tree");
  const Owner me("a test");
  Election leader = client.election("leader");
  EXPECT_TRUE(with_lock(prices, {}, count));
  EXPECT_TRUE(with_lock([&] { return prices.acquire_shared(); }, count));
  EXPECT_TRUE(with_lock([&] { return pool.acquire(2); }, count));
  EXPECT_TRUE(with_lock([&] { return users.acquire("eve"); }, count));
  EXPECT_TRUE(with_lock([&] { return tree.acquire(me); }, count));
  EXPECT_TRUE(with_lock([&] { return client.try_acquire("plain", Mode::exclusive()); }, count));
  EXPECT_TRUE(with_lock([&] { return leader.campaign("here"); }, count));
  EXPECT_TRUE(with_lock(
      [&] {
        return client.acquire_all({{"a", Mode::exclusive()}, {"b", Mode::exclusive()}});
      },
      count));
  EXPECT_EQ(calls, 8);
}

}  // namespace holdfast::testing
