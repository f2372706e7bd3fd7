// Reentrancy by an owner, and stripes.
#include "tests/library/fixture.h"

namespace holdfast::testing {
namespace {

class RecursiveMutexTest : public LibraryTest {
 protected:
  void SetUp() override {
    LibraryTest::SetUp();
    if (!IsSkipped()) mutex_ = one().recursive_mutex("tree", 3);
  }
  std::optional<RecursiveMutex> mutex_;
  Owner me_{"me"};
  Owner you_{"you"};
};

TEST_P(RecursiveMutexTest, ItsOwnerEntersAgainWithTheSameToken) {
  RecursiveLease outer = mutex_->acquire(me_).value();
  RecursiveLease inner = mutex_->acquire(me_).value();
  EXPECT_EQ(outer.token(), inner.token());
  EXPECT_EQ(inner.depth(), 2U);
  EXPECT_FALSE(mutex_->try_acquire(you_).value());
  EXPECT_TRUE(inner.release());
  EXPECT_FALSE(mutex_->try_acquire(you_).value());
  EXPECT_TRUE(outer.held());
  EXPECT_TRUE(outer.release());
  EXPECT_TRUE(outer.release());
  EXPECT_TRUE(mutex_->try_acquire(you_).value());
}

TEST_P(RecursiveMutexTest, ItIsTheOwnerThatCountsNotTheThread) {
  const RecursiveLease mine = mutex_->acquire(me_).value();
  EXPECT_FALSE(mutex_->try_acquire(you_).value());
  std::async(std::launch::async, [&] {
    const auto again = mutex_->acquire(me_);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->depth(), 2U);
  }).get();
  EXPECT_EQ(mine.depth(), 1U);
}

TEST_P(RecursiveMutexTest, IsOnlySoDeepAsItMayBe) {
  const RecursiveLease a = mutex_->acquire(me_).value();
  const RecursiveLease b = mutex_->acquire(me_).value();
  const RecursiveLease c = mutex_->acquire(me_).value();
  EXPECT_TRUE(fails_with(mutex_->acquire(me_), Errc::kQueueFull));
}

TEST_P(RecursiveMutexTest, ALostLeaseIsNotReentered) {
  std::optional<RecursiveLease> lost =
      mutex_->acquire(me_, {.ttl = 200ms, .auto_renew = false}).value();
  EXPECT_TRUE(fires(lost->lost()));
  EXPECT_FALSE(lost->held());
  EXPECT_TRUE(fails_with(mutex_->acquire(me_), Errc::kLost));
  lost.reset();
  EXPECT_TRUE(mutex_->acquire(me_));
}

TEST_P(RecursiveMutexTest, TwoCallsOfOneOwnerAtOnceAreOneAcquisition) {
  std::optional<RecursiveLease> other = mutex_->acquire(you_).value();
  std::atomic<int> queued{0};
  std::vector<std::future<Result<RecursiveLease>>> calls;
  for (int i = 0; i < 3; ++i) {
    calls.push_back(std::async(std::launch::async, [&] {
      return mutex_->acquire(me_,
                             {.wait = kPatience, .on_queued = [&](std::uint32_t) { ++queued; }});
    }));
  }
  while (queued == 0) std::this_thread::yield();
  EXPECT_FALSE(mutex_->try_acquire(me_).value());
  other.reset();
  std::vector<RecursiveLease> held;
  for (auto& call : calls) {
    auto got = call.get();
    ASSERT_TRUE(got) << got.error().message();
    held.push_back(*std::move(got));
  }
  EXPECT_EQ(held[0].token(), held[2].token());
  EXPECT_EQ(held[0].depth(), 3U);
  EXPECT_EQ(queued, 1);
}

TEST_P(RecursiveMutexTest, AFailedCallLeavesTheWayFree) {
  const RecursiveLease other = mutex_->acquire(you_).value();
  EXPECT_TRUE(fails_with(mutex_->acquire(me_, {.wait = 10ms}), Errc::kTimedOut));
  EXPECT_TRUE(fails_with(mutex_->acquire(me_, {.ttl = 1ms}), Errc::kInvalidArgument));
  EXPECT_FALSE(mutex_->try_acquire(me_).value());
}

HOLDFAST_ON_EVERY_STORE(RecursiveMutexTest);

class StripedMutexTest : public LibraryTest {};

TEST_P(StripedMutexTest, AKeyHasItsStripeForEver) {
  const StripedMutex stock = one().striped_mutex("stock", 16);
  // By FNV-1a of the keys; these must never change.
  EXPECT_EQ(stock.stripe_of(""), 0xcbf29ce484222325U % 16);
  EXPECT_EQ(stock.stripe_of("a"), 0xaf63dc4c8601ec8cU % 16);
  EXPECT_EQ(stock.stripe_name(7), "stock/7");
}

TEST_P(StripedMutexTest, OnlyTheStripeOfTheKeyIsHeld) {
  StripedMutex stock = one().striped_mutex("stock", 4);
  const Lease a = stock.acquire("a").value();
  EXPECT_EQ(a.name(), stock.stripe_name(stock.stripe_of("a")));
  EXPECT_FALSE(stock.try_acquire("a").value());
  std::string elsewhere = "b";
  while (stock.stripe_of(elsewhere) == stock.stripe_of("a")) elsewhere += "b";
  EXPECT_TRUE(stock.try_acquire(elsewhere).value());
}

TEST_P(StripedMutexTest, AnyFreeStripeWillDo) {
  StripedMutex stock = one().striped_mutex("stock", 3);
  std::vector<Lease> held;
  for (int i = 0; i < 3; ++i) held.push_back(stock.acquire_any("k").value());
  EXPECT_TRUE(fails_with(stock.acquire_any("k", {.wait = 10ms}), Errc::kTimedOut));
  EXPECT_TRUE(fails_with(stock.acquire_all({.wait = 10ms}), Errc::kTimedOut));
  held.clear();
  const LeaseSet whole = stock.acquire_all({.wait = kPatience}).value();
  EXPECT_TRUE(whole.held());
  EXPECT_EQ(whole.size(), 3U);
  EXPECT_FALSE(stock.try_acquire("k").value());
}

TEST_P(StripedMutexTest, ThereMustBeStripes) {
  EXPECT_TRUE(fails_with(one().striped_mutex("none", 0).acquire("k"), Errc::kInvalidArgument));
  EXPECT_TRUE(fails_with(one().striped_mutex("none", 0).acquire_all(), Errc::kInvalidArgument));
  EXPECT_TRUE(fails_with(one().striped_mutex("many", 65).acquire_all(), Errc::kInvalidArgument));
  EXPECT_TRUE(fails_with(one().striped_mutex("many", 65).acquire_any("k"), Errc::kInvalidArgument));
}

HOLDFAST_ON_EVERY_STORE(StripedMutexTest);

}  // namespace
}  // namespace holdfast::testing
