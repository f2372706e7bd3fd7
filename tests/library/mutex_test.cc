// Mutex through the standard's vocabulary, and as a value.
#include <mutex>

#include "tests/library/fixture.h"

namespace holdfast::testing {

class MutexTest : public LibraryTest {};
HOLDFAST_ON_EVERY_STORE(MutexTest);

TEST_P(MutexTest, TwoClientsExcludeEachOther) {
  const Client alice = connect();
  const Client bob = connect();
  auto lease = alice.mutex("orders/42").acquire();
  ASSERT_TRUE(lease) << lease.error().message();
  EXPECT_TRUE(lease->held());
  EXPECT_FALSE(is_free(bob.mutex("orders/42")));
  EXPECT_TRUE(is_free(bob.mutex("orders/43")));
  ASSERT_TRUE(lease->release());
  EXPECT_FALSE(lease->held());
  EXPECT_TRUE(is_free(bob.mutex("orders/42")));
}

TEST_P(MutexTest, AnOwnerThatIsNamedIsWhatPeopleSee) {
  const Client client = connect();
  const Owner me("order 42");
  const Lease held = take(client.mutex("orders"), {.owner = me});
  const auto seen = client.inspect("orders");
  ASSERT_TRUE(seen && *seen);
  ASSERT_EQ((*seen)->holders.size(), 1U);
  EXPECT_EQ((*seen)->holders.front().who.owner, me.id());
  EXPECT_EQ((*seen)->holders.front().who.pid, ::getpid());
  const Owner too_long(std::string(129, 'x'));
  EXPECT_TRUE(
      fails_with(client.mutex("other").acquire({.owner = too_long}), Errc::kInvalidArgument));
}

TEST_P(MutexTest, TokensGrowFromHolderToHolder) {
  const Client alice = connect();
  const Client bob = connect();
  Token last;
  for (int i = 0; i < 10; ++i) {
    Lease lease = take((i % 2 == 0 ? alice : bob).mutex("orders"));
    EXPECT_GT(lease.token(), last);
    last = lease.token();
    ASSERT_TRUE(lease.release());
    EXPECT_EQ(lease.token(), last);  // Its own for ever, never the next holder's.
  }
}

TEST_P(MutexTest, ScopedLockOfTwoMutexesDoesNotDeadlock) {
  const Client client = connect();
  int counter = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      Mutex first = client.mutex(i % 2 == 0 ? "a" : "b");
      Mutex second = client.mutex(i % 2 == 0 ? "b" : "a");
      for (int round = 0; round < 10; ++round) {
        const std::scoped_lock guard(first, second);
        ++counter;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(counter, 30);
}

TEST_P(MutexTest, UniqueLockLocksAndUnlocks) {
  const Client client = connect();
  Mutex mutex = client.mutex("orders");
  {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(lock.owns_lock());
    ASSERT_NE(mutex.lease(), nullptr);
    EXPECT_TRUE(mutex.lease()->held());
    EXPECT_FALSE(is_free(connect().mutex("orders")));
  }
  EXPECT_EQ(mutex.lease(), nullptr);
  EXPECT_TRUE(is_free(connect().mutex("orders")));
}

TEST_P(MutexTest, TryLockForTakesItsTimeAndNoMore) {
  const Client client = connect();
  const Lease other = take(connect().mutex("orders"));
  Mutex mutex = client.mutex("orders");
  const auto before = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex, 200ms);
  const auto took = std::chrono::steady_clock::now() - before;
  EXPECT_FALSE(lock.owns_lock());
  EXPECT_GE(took, 200ms);
  EXPECT_LT(took, 2s);
  EXPECT_FALSE(mutex.try_lock());
  EXPECT_FALSE(mutex.try_lock_until(std::chrono::system_clock::now() + 50ms));
}

TEST_P(MutexTest, TryLockForGetsWhatIsReleasedMeanwhile) {
  const Client client = connect();
  std::optional<Lease> other = take(connect().mutex("orders"));
  Mutex mutex = client.mutex("orders", {.on_queued = [&](std::uint32_t) { other.reset(); }});
  EXPECT_TRUE(mutex.try_lock_for(kPatience));
  mutex.unlock();
}

TEST_P(MutexTest, AThreadCannotLockWhatItHasLocked) {
  const Client client = connect();
  Mutex mutex = client.mutex("orders");
  mutex.lock();
  EXPECT_FALSE(mutex.try_lock());
  try {
    mutex.lock();
    FAIL() << "it locked twice";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), make_error_code(Errc::kWouldDeadlock));
  }
  Mutex copy = mutex;  // Copies are the same mutex.
  copy.unlock();
  EXPECT_TRUE(is_free(client.mutex("orders")));
}

TEST_P(MutexTest, TheUnlockOfALockThatWasLostFreesNoOther) {
  const Client client = connect();
  Mutex mutex = client.mutex("orders", {.ttl = 200ms, .max_hold = 100ms});
  const auto refused = [&](const auto& lock) {
    try {
      lock();
      return false;
    } catch (const std::system_error& error) {
      return error.code() == make_error_code(Errc::kWouldDeadlock);
    }
  };
  std::unique_lock first(mutex);
  ASSERT_TRUE(fires(mutex.lease()->lost()));
  EXPECT_TRUE(refused([&] { mutex.lock(); }));
  EXPECT_TRUE(refused([&] { mutex.try_lock(); }));
  first.unlock();
  EXPECT_EQ(mutex.lease(), nullptr);
  ASSERT_TRUE(mutex.try_lock_for(kPatience));
  EXPECT_TRUE(mutex.lease()->held());
  mutex.unlock();
}

// The id that the system gives to a thread comes back when the thread has ended.
TEST_P(MutexTest, AThreadIsNotTakenForOneThatHasEnded) {
  const Client client = connect();
  Mutex mutex = client.mutex("orders", {.ttl = 60s});
  std::thread::id locker;
  std::thread([&] {
    locker = std::this_thread::get_id();
    mutex.lock();
  }).join();
  bool same = false;
  for (int round = 0; round < 20 && !same; ++round) {
    std::thread([&] {
      same = std::this_thread::get_id() == locker;
      EXPECT_EQ(mutex.lease(), nullptr);
      mutex.unlock();
    }).join();
  }
  EXPECT_FALSE(is_free(connect().mutex("orders")));
}

TEST_P(MutexTest, ABadNameIsToldByTheFirstCall) {
  const Client client = connect();
  const std::vector<std::string> bad{"",         std::string(257, 'x'), "a\nb", "a/../b",
                                     "\xFF\xFE", std::string("a\0b", 3)};
  for (const std::string& name : bad) {
    EXPECT_TRUE(fails_with(client.mutex(name).acquire(), Errc::kInvalidArgument)) << name;
    Mutex mutex = client.mutex(name);
    EXPECT_THROW(mutex.lock(), std::system_error) << name;
  }
}

TEST_P(MutexTest, BadOptionsAreRefused) {
  const Client client = connect();
  Mutex mutex = client.mutex("orders");
  EXPECT_TRUE(fails_with(mutex.acquire({.ttl = 1ms}), Errc::kInvalidArgument));
  EXPECT_TRUE(fails_with(mutex.acquire({.ttl = std::chrono::hours(25)}), Errc::kInvalidArgument));
  EXPECT_TRUE(fails_with(mutex.acquire({.wait = -1ms}), Errc::kInvalidArgument));
  EXPECT_TRUE(is_free(mutex));
}

TEST_P(MutexTest, AWaitThatRunsOutLeavesTheQueue) {
  const Client alice = connect();
  const Client bob = connect();
  const Lease lease = take(alice.mutex("orders"));
  EXPECT_TRUE(fails_with(bob.mutex("orders").acquire({.wait = 100ms}), Errc::kTimedOut));
  const auto info = alice.inspect("orders");
  ASSERT_TRUE(info && *info);
  EXPECT_TRUE((*info)->waiters.empty());
}

TEST_P(MutexTest, WaitersAreServedInOrder) {
  const Client client = connect();
  std::optional<Lease> first = take(client.mutex("orders"));
  std::vector<int> order;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    std::atomic<bool> queued{false};
    threads.emplace_back([&, i] {
      auto lease = client.mutex("orders").acquire({.on_queued = [&](std::uint32_t ahead) {
        EXPECT_EQ(ahead, static_cast<std::uint32_t>(i));
        queued = true;
        queued.notify_all();
      }});
      ASSERT_TRUE(lease) << lease.error().message();
      order.push_back(i);
    });
    queued.wait(false);
  }
  first.reset();
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
}

TEST_P(MutexTest, AFullQueueIsTold) {
  const Client client = connect();
  const Lease lease = take(client.mutex("orders"));
  std::atomic<bool> queued{false};
  std::stop_source stop;
  std::thread waiter([&] {
    EXPECT_TRUE(fails_with(client.mutex("orders").acquire({.cancel = stop.get_token(),
                                                           .on_queued =
                                                               [&](std::uint32_t) {
                                                                 queued = true;
                                                                 queued.notify_all();
                                                               }}),
                           Errc::kCancelled));
  });
  queued.wait(false);
  EXPECT_TRUE(fails_with(client.mutex("orders").acquire({.max_waiters = 1}), Errc::kQueueFull));
  stop.request_stop();
  waiter.join();
}

TEST_P(MutexTest, ReadersShareAndPermitsCount) {
  const Client client = connect();
  auto one = client.acquire("doc", Mode::shared());
  auto two = client.acquire("doc", Mode::shared());
  ASSERT_TRUE(one && two);
  EXPECT_FALSE(is_free(client.mutex("doc")));
  auto pool = client.acquire("pool", Mode::permits(2, 3));
  ASSERT_TRUE(pool);
  EXPECT_TRUE(client.try_acquire("pool", Mode::permits(1, 3))->has_value());
  EXPECT_FALSE(client.try_acquire("pool", Mode::permits(2, 3))->has_value());
  EXPECT_TRUE(fails_with(client.try_acquire("pool", Mode::permits(1, 9)), Errc::kInvalidArgument));
}

// Waiters poll about once a second: whose wake-up got lost would be found by that. Some threads
// stop waiting in between, so that another one of their client hears the pushes.
TEST_P(MutexTest, WhoWaitsIsWokenAndNeedNotPoll) {
  const Client alice = connect();
  const Client bob = connect();
  std::atomic<std::int64_t> released{0};
  std::atomic<int> late{0};
  std::atomic<int> granted{0};
  const auto now = [] { return base::BootClock::now().time_since_epoch().count(); };
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      Mutex mutex = (i % 2 == 0 ? alice : bob).mutex("hot");
      for (int round = 0; round < 50; ++round) {
        const bool hurried = (round + i) % 7 == 0;
        auto lease = mutex.acquire({.wait = hurried ? 2ms : 60'000ms});
        if (!lease) {
          EXPECT_EQ(lease.error().code(), Errc::kTimedOut) << lease.error().message();
          continue;
        }
        ++granted;
        if (now() - released > std::chrono::nanoseconds(800ms).count() && released != 0) ++late;
        released = now();
        EXPECT_TRUE(lease->release());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_GT(granted, 200);
  // A machine that stands still makes one late as well, but not many.
  EXPECT_LE(late, 3);
}

// Four threads under one lock, with waits that end in every way: nobody is ever beside another.
TEST_P(MutexTest, NobodyIsInsideWithAnotherUnderStress) {
  const Client alice = connect();
  const Client bob = connect();
  std::atomic<int> inside{0};
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      Mutex mutex = (i % 2 == 0 ? alice : bob).mutex("hot");
      for (int round = 0; round < 40; ++round) {
        std::stop_source stop;
        const bool hurried = (round + i) % 4 == 0;
        if ((round + i) % 5 == 0) stop.request_stop();
        auto lease = mutex.acquire({.wait = hurried ? 1ms : 10'000ms, .cancel = stop.get_token()});
        if (!lease) {
          const Errc code = lease.error().code();
          EXPECT_TRUE(code == Errc::kTimedOut || code == Errc::kCancelled)
              << lease.error().message();
          continue;
        }
        EXPECT_EQ(inside.fetch_add(1), 0);
        std::this_thread::yield();
        EXPECT_EQ(inside.fetch_sub(1), 1);
        ++done;
        if (round % 2 == 0) {
          EXPECT_TRUE(lease->release());
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_GT(done, 40);
  EXPECT_TRUE(alice.mutex("hot").acquire({.wait = kPatience}));
}

}  // namespace holdfast::testing
