// The lock-delay beside everything else that holds or ends a lock (docs/design/0071-lock-delay.md).
#include <set>
#include <string>

#include "tests/library/fixture.h"

namespace holdfast::testing {

class LockDelayTest : public LibraryTest {
 protected:
  void SetUp() override {
    LibraryTest::SetUp();
    if (!IsSkipped() && one().guarantees().ends_with_client) {
      GTEST_SKIP() << "skipped by capability: leases end with their client";
    }
  }
  // Longer than a case lasts.
  static constexpr auto kDelay = 120s;
  // A lease that is not renewed, and is over a moment later.
  static constexpr auto kTtl = 2s;

  static AcquireOptions mortal() {
    return {.wait = kPatience, .ttl = kTtl, .auto_renew = false, .lock_delay = kDelay};
  }
  Token holder() {
    const auto info = two().inspect("orders");
    EXPECT_TRUE(info && *info && !(*info)->holders.empty());
    return (*info)->holders.front().token;
  }
};
HOLDFAST_ON_EVERY_STORE(LockDelayTest);

TEST_P(LockDelayTest, ABreakEndsItAndAnInspectionTellsHowLongItLasts) {
  const Lease lost = take(one().mutex("orders"), mortal());
  ASSERT_TRUE(fires(lost.lost()));
  EXPECT_FALSE(is_free(two().mutex("orders")));
  const auto info = two().inspect("orders");
  ASSERT_TRUE(info && *info && !(*info)->holders.empty());
  EXPECT_GT((*info)->holders.front().time_left, kDelay - 30s);
  EXPECT_LE((*info)->holders.front().time_left, kDelay + kTtl + 3s);
  ASSERT_TRUE(two().break_lock("orders", lost.token(), "its host is off"));
  const Lease next = take(two().mutex("orders"), {.wait = kPatience});
  EXPECT_GT(next.token(), lost.token());
}

namespace {

// The others do not know how much of a lease is left.
bool inspection_tells(const std::string& store) {
  const std::set<std::string> others{"zookeeper", "etcd", "consul", "hybrid", "memcached"};
  return !others.contains(store);
}

// Others may tell, too.
bool tells_waiters(const std::string& store) {
  return store == "holdfast" || store == "holdfast-etcd" || store == "memory";
}

struct Ear final : Observer {
  void queue_seen(const QueueSeen& seen) override {
    if (seen.opens_in.count() > 0) opens_in = seen.opens_in.count();
  }
  std::atomic<std::int64_t> opens_in{0};
};

}  // namespace

TEST_P(LockDelayTest, AWaiterIsToldThatNobodyHoldsAnyMoreAndUntilWhenItIsClosed) {
  const Lease lost = take(one().mutex("orders"), mortal());
  const auto ear = std::make_shared<Ear>();
  ClientOptions options;
  options.observer = ear;
  Client waiter = connect(std::move(options));
  std::promise<std::chrono::milliseconds> told;
  std::atomic<int> times{0};
  std::atomic<bool> early{false};
  std::stop_source enough;
  AcquireOptions wish{.wait = 3 * kPatience, .cancel = enough.get_token()};
  wish.on_lock_delay = [&](std::chrono::milliseconds opens_in) {
    early = early || lost.held();
    if (times++ == 0) told.set_value(opens_in);
  };
  auto waits = std::async(std::launch::async, [&] { return waiter.mutex("orders").acquire(wish); });
  ASSERT_TRUE(fires(lost.lost()));
  auto news = told.get_future();
  const bool heard =
      news.wait_for(tells_waiters(GetParam()) ? kPatience : 3s) == std::future_status::ready;
  EXPECT_TRUE(heard || !tells_waiters(GetParam()));
  const auto info = two().inspect("orders");
  ASSERT_TRUE(info && *info && !(*info)->holders.empty());
  if (inspection_tells(GetParam())) {
    EXPECT_EQ((*info)->holders.front().lock_delay, kDelay);
    EXPECT_TRUE((*info)->holders.front().only_delayed());
    EXPECT_GT((*info)->opens_in(), kDelay - 30s);
  } else {
    EXPECT_EQ((*info)->opens_in(), 0s);
  }
  if (heard) {
    const auto opens_in = news.get();
    EXPECT_GT(opens_in, kDelay - 10s);
    EXPECT_LE(opens_in, kDelay);
    EXPECT_FALSE(early) << "the holder counts on the lock";
  }
  enough.request_stop();
  EXPECT_TRUE(fails_with(waits.get(), Errc::kCancelled));
  EXPECT_EQ(times, heard ? 1 : 0) << "once";
  EXPECT_TRUE(waiter.close());
  EXPECT_EQ(ear->opens_in > 0, heard);
}

TEST_P(LockDelayTest, TheReleaseOfAJobKeepsTheLockForItsTimeOnly) {
  JobLock job = one().job_lock("orders", {.at_least_for = 1s});
  auto run = job.try_acquire({.ttl = kTtl, .lock_delay = kDelay});
  ASSERT_TRUE(run && *run) << run.error().message();
  ASSERT_TRUE((*run)->release());
  const Lease next = take(two().mutex("orders"), {.wait = kPatience});
  EXPECT_TRUE(next.held());
}

TEST_P(LockDelayTest, AReaderKeepsWritersOutAndOtherReadersEnter) {
  if (!one().guarantees().shared) GTEST_SKIP() << "skipped by capability: no readers";
  auto reader = one().shared_mutex("orders").acquire_shared(mortal());
  ASSERT_TRUE(reader) << reader.error().message();
  ASSERT_TRUE(fires(reader->lost()));
  {
    auto other = two().shared_mutex("orders").acquire_shared({.wait = kPatience});
    ASSERT_TRUE(other) << other.error().message();
  }
  auto writer = two().shared_mutex("orders").try_acquire();
  ASSERT_TRUE(writer) << writer.error().message();
  EXPECT_FALSE(*writer);
  ASSERT_TRUE(two().break_lock("orders", holder()));
  EXPECT_TRUE(two().shared_mutex("orders").acquire({.wait = kPatience}));
}

TEST_P(LockDelayTest, APermitStaysTakenAndTheOthersAreFree) {
  if (!one().guarantees().permits) GTEST_SKIP() << "skipped by capability: no permits";
  auto lost = one().semaphore("orders", 2).acquire(1, mortal());
  if (!lost && lost.error().code() == Errc::kUnsupported) {
    GTEST_SKIP() << "skipped by capability: " << lost.error().message();
  }
  ASSERT_TRUE(lost) << lost.error().message();
  ASSERT_TRUE(fires(lost->lost()));
  auto second = two().semaphore("orders", 2).acquire(1, {.wait = kPatience});
  ASSERT_TRUE(second) << second.error().message();
  auto third = two().semaphore("orders", 2).try_acquire(1);
  ASSERT_TRUE(third) << third.error().message();
  EXPECT_FALSE(*third);
}

TEST_P(LockDelayTest, AnOwnerWhoLostTheLockDoesNotEnterAgain) {
  RecursiveMutex tree = one().recursive_mutex("orders", 3);
  const Owner me("me");
  {
    auto outer = tree.acquire(me, mortal());
    ASSERT_TRUE(outer) << outer.error().message();
    auto inner = tree.acquire(me, mortal());
    ASSERT_TRUE(inner) << inner.error().message();
    EXPECT_EQ(inner->token(), outer->token());
    ASSERT_TRUE(inner->release());
    EXPECT_FALSE(is_free(two().mutex("orders"))) << "the outer one holds";
    ASSERT_TRUE(outer->release());
    EXPECT_TRUE(is_free(two().mutex("orders"))) << "a release opens the lock";
  }
  auto lost = tree.acquire(me, mortal());
  ASSERT_TRUE(lost) << lost.error().message();
  const Token token = lost->token();
  EXPECT_FALSE(two().mutex("orders").acquire({.wait = 3s})) << "its lease and more than that";
  EXPECT_FALSE(lost->held());
  const auto again = tree.try_acquire(me);
  EXPECT_TRUE(!again || !*again) << "the lock is closed to its last owner, too";
  ASSERT_TRUE(two().break_lock("orders", token));
}

// A grant from the queue has a waiter's lease, in which no delay is.
TEST_P(LockDelayTest, AGrantFromTheQueueHasItsDelayOnceItIsReported) {
  Lease first = take(one().mutex("orders"), {.wait = kPatience});
  std::promise<void> queued;
  AcquireOptions wish = mortal();
  wish.on_queued = [&](std::uint32_t) { queued.set_value(); };
  auto waits = std::async(std::launch::async, [&] { return two().mutex("orders").acquire(wish); });
  ASSERT_EQ(queued.get_future().wait_for(kPatience), std::future_status::ready);
  ASSERT_TRUE(first.release());
  auto second = waits.get();
  ASSERT_TRUE(second) << second.error().message();
  EXPECT_LE(second->remaining(), kTtl);
  const auto info = one().inspect("orders");
  ASSERT_TRUE(info && *info && !(*info)->holders.empty());
  EXPECT_GT((*info)->holders.front().time_left, kDelay - 30s);
}

TEST_P(LockDelayTest, AnOrderlyEndOfTheClientOpensTheLock) {
  Client client = connect();
  const Lease lease = take(client.mutex("orders"), {.wait = kPatience, .lock_delay = kDelay});
  ASSERT_TRUE(client.close());
  EXPECT_FALSE(lease.held());
  const Lease next = take(two().mutex("orders"), {.wait = kPatience});
  EXPECT_GT(next.token(), lease.token());
}

TEST_P(LockDelayTest, ADelayThatNoLeaseCanHaveIsRefused) {
  for (const auto delay : {std::chrono::milliseconds(-1), std::chrono::milliseconds::min(),
                           std::chrono::milliseconds::max(), std::chrono::milliseconds(24h)}) {
    EXPECT_TRUE(fails_with(one().mutex("orders").acquire({.ttl = 2s, .lock_delay = delay}),
                           Errc::kInvalidArgument));
  }
  EXPECT_TRUE(is_free(two().mutex("orders")));
}

}  // namespace holdfast::testing
