// How a lease lives, is lost, is handed over and ends.
#include "tests/library/fixture.h"

namespace holdfast::testing {

class LeaseTest : public LibraryTest {};
HOLDFAST_ON_EVERY_STORE(LeaseTest);

TEST_P(LeaseTest, ALeaseIsRenewedInTheBackground) {
  const Client client = connect();
  const Lease lease = take(client.mutex("orders"), {.ttl = 400ms});
  EXPECT_FALSE(fires(lease.lost(), 1500ms));
  EXPECT_TRUE(lease.held());
  EXPECT_EQ(lease.state(), LeaseState::kHeld);
  EXPECT_GT(lease.remaining(), 0ms);
  EXPECT_LE(lease.remaining(), 400ms);
  EXPECT_FALSE(lease.loss());
}

// The heart of it: the loss is told before the lock can be anybody else's.
TEST_P(LeaseTest, TheLossIsToldBeforeAnotherCanHoldTheLock) {
  const Client alice = connect({.clock_rate_error_ppm = 200'000});
  const Client bob = connect();
  const Lease lease = take(alice.mutex("orders"), {.ttl = 1000ms, .auto_renew = false});
  std::atomic<bool> told{false};
  const std::stop_callback note(lease.lost(), [&] { told = true; });
  EXPECT_TRUE(lease.held());
  const Lease next = take(bob.mutex("orders"), {.wait = kPatience});
  EXPECT_TRUE(told);
  EXPECT_FALSE(lease.held());
  EXPECT_EQ(lease.state(), LeaseState::kLost);
  ASSERT_TRUE(lease.loss());
  EXPECT_EQ(lease.loss()->code(), Errc::kLost);
  EXPECT_EQ(lease.remaining(), 0ms);
  EXPECT_GT(next.token(), lease.token());
}

TEST_P(LeaseTest, ALockDelayKeepsOthersOutAfterALossAndNotAfterARelease) {
  const Client alice = connect();
  const Client bob = connect();
  if (alice.guarantees().ends_with_client) {
    EXPECT_TRUE(fails_with(alice.mutex("orders").acquire({.lock_delay = 1s}), Errc::kUnsupported));
    return;
  }
  Lease released = take(alice.mutex("orders"), {.ttl = 60s, .lock_delay = 60s});
  EXPECT_LE(released.remaining(), 60s);
  ASSERT_TRUE(released.release());
  Lease lost =
      take(alice.mutex("orders"), {.wait = 0s, .ttl = 2s, .auto_renew = false, .lock_delay = 2s});
  const auto end = base::BootInstant(lost.deadline_boottime());
  ASSERT_TRUE(fires(lost.lost()));
  EXPECT_TRUE(fails_with(lost.release(), Errc::kLost));
  {
    const Lease next = take(bob.mutex("orders"), {.wait = kPatience});
    EXPECT_GE(base::BootClock::now(), end + 1950ms);
  }
  base::BootInstant forgotten{};
  {
    const Lease lease = take(alice.mutex("orders"),
                             {.wait = kPatience, .ttl = 2s, .auto_renew = false, .lock_delay = 2s});
    forgotten = base::BootInstant(lease.deadline_boottime());
    ASSERT_TRUE(fires(lease.lost()));
  }
  const Lease last = take(bob.mutex("orders"), {.wait = kPatience});
  EXPECT_GE(base::BootClock::now(), forgotten + 1950ms) << "the handle's end released it";
}

TEST_P(LeaseTest, ReleaseAndRenewOfALostLeaseSaySo) {
  const Client client = connect();
  Lease lease = take(client.mutex("orders"), {.ttl = 150ms, .auto_renew = false});
  ASSERT_TRUE(fires(lease.lost()));
  EXPECT_TRUE(fails_with(lease.renew(), Errc::kLost));
  EXPECT_TRUE(fails_with(lease.release(), Errc::kLost));
  EXPECT_TRUE(fails_with(lease.release(), Errc::kLost));
  EXPECT_FALSE(lease.held());
  const Lease next = take(client.mutex("orders"), {.wait = kPatience});
  if (client.guarantees().fenced) {
    EXPECT_FALSE(client.check("orders", lease.token()).value());
  }
}

TEST_P(LeaseTest, ALateReleaseDoesNotTouchTheNextHolder) {
  const Client alice = connect();
  const Client bob = connect();
  Lease old = take(alice.mutex("orders"), {.ttl = 150ms, .auto_renew = false});
  const Lease next = take(bob.mutex("orders"), {.wait = kPatience});
  EXPECT_FALSE(old.release());
  EXPECT_TRUE(next.held());
  EXPECT_FALSE(is_free(alice.mutex("orders")));
}

TEST_P(LeaseTest, AMovedLeaseHoldsNothingAndTheOtherGoesOn) {
  const Client client = connect();
  Lease from = take(client.mutex("orders"));
  Lease to = std::move(from);
  // NOLINTBEGIN(bugprone-use-after-move)
  EXPECT_FALSE(from.held());
  EXPECT_EQ(from.state(), LeaseState::kReleased);
  EXPECT_EQ(from.name(), "");
  EXPECT_EQ(from.mode(), Mode::exclusive());
  EXPECT_EQ(from.token(), Token());
  EXPECT_EQ(from.id(), "");
  EXPECT_EQ(from.remaining(), 0ms);
  EXPECT_EQ(from.deadline_boottime(), 0ns);
  EXPECT_FALSE(from.lost().stop_requested());
  EXPECT_FALSE(from.loss());
  EXPECT_TRUE(fails_with(from.release(), Errc::kInvalidArgument));
  EXPECT_TRUE(fails_with(from.renew(), Errc::kInvalidArgument));
  from.detach();
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_TRUE(to.renew());
  from = std::move(to);
  EXPECT_TRUE(from.held());
  EXPECT_TRUE(from.release());
}

TEST_P(LeaseTest, ALeaseMayBeMovedToItself) {
  const Client client = connect();
  Lease lease = take(client.mutex("orders"));
  Lease& same = lease;
  lease = std::move(same);
  EXPECT_TRUE(lease.held());
  EXPECT_FALSE(is_free(client.mutex("orders")));
  EXPECT_TRUE(lease.release());
}

TEST_P(LeaseTest, AMovedClientAndMutexCanStillBeUsed) {
  Client client = connect();
  const Client other = std::move(client);
  Mutex mutex = client.mutex("orders");  // NOLINT(bugprone-use-after-move)
  Mutex moved = std::move(mutex);
  EXPECT_EQ(mutex.name(), "orders");  // NOLINT(bugprone-use-after-move)
  EXPECT_TRUE(mutex.acquire({.wait = 0ms}));
  moved.lock();
  EXPECT_FALSE(mutex.try_lock());
  mutex.unlock();
  const auto seen = client.inspect("orders");
  ASSERT_TRUE(seen);
}

TEST_P(LeaseTest, ReleaseGivesItsAnswerAgain) {
  const Client client = connect();
  Lease lease = take(client.mutex("orders"));
  EXPECT_TRUE(lease.release());
  EXPECT_TRUE(lease.release());
  EXPECT_EQ(lease.state(), LeaseState::kReleased);
  EXPECT_FALSE(lease.lost().stop_requested());
  EXPECT_FALSE(lease.loss());
}

TEST_P(LeaseTest, RenewGivesAFullLease) {
  const Client client = connect();
  Lease lease = take(client.mutex("orders"), {.ttl = 5s, .auto_renew = false});
  const auto before = lease.deadline_boottime();
  ASSERT_TRUE(lease.renew());
  EXPECT_GT(lease.deadline_boottime(), before);
}

TEST_P(LeaseTest, TheDestructorReleases) {
  const Client alice = connect();
  const Client bob = connect();
  { const Lease lease = take(alice.mutex("orders"), {.ttl = 60s}); }
  EXPECT_TRUE(bob.mutex("orders").acquire({.wait = 5s}));
}

TEST_P(LeaseTest, AssigningReleasesWhatWasHeldBefore) {
  const Client client = connect();
  Lease lease = take(client.mutex("a"), {.ttl = 60s});
  lease = take(client.mutex("b"), {.ttl = 60s});
  EXPECT_EQ(lease.name(), "b");
  EXPECT_TRUE(client.mutex("a").acquire({.wait = 5s}));
  EXPECT_FALSE(is_free(client.mutex("b")));
}

TEST_P(LeaseTest, TheLeaseOutlivesClientAndMutexObjects) {
  std::optional<Lease> lease;
  {
    const Client client = connect();
    lease = take(client.mutex("orders"), {.ttl = 600ms});
  }
  EXPECT_FALSE(fires(lease->lost(), 1s));
  EXPECT_TRUE(lease->held());
  EXPECT_TRUE(lease->release());
}

TEST_P(LeaseTest, MaxHoldEndsARunawayHolder) {
  const Client alice = connect();
  const Client bob = connect();
  const auto before = base::BootClock::now();
  const Lease lease = take(alice.mutex("orders"), {.ttl = 900ms, .max_hold = 1500ms});
  ASSERT_TRUE(fires(lease.lost()));
  EXPECT_GE(base::BootClock::now() - before, 1400ms);
  EXPECT_LT(base::BootClock::now() - before, 3s);
  EXPECT_FALSE(lease.held());
  ASSERT_TRUE(lease.loss());
  EXPECT_EQ(lease.loss()->code(), Errc::kLost);
  EXPECT_TRUE(bob.mutex("orders").acquire({.wait = 2s}));
}

TEST_P(LeaseTest, ABrokenHolderIsToldWhoDidIt) {
  const Client alice = connect();
  const Client root = connect({.owner = "root on call"});
  Lease lease = take(alice.mutex("orders"), {.ttl = 60s});
  EXPECT_TRUE(fails_with(root.break_lock("orders", {0, 1}), Errc::kLost));
  ASSERT_TRUE(root.break_lock("orders", lease.token(), "stuck since noon"));
  ASSERT_TRUE(fires(lease.lost()));  // By the store's push, long before a renewal is due.
  EXPECT_FALSE(lease.held());
  ASSERT_TRUE(lease.loss());
  EXPECT_EQ(lease.loss()->code(), Errc::kBroken);
  EXPECT_NE(lease.loss()->message().find("root on call"), std::string::npos);
  EXPECT_NE(lease.loss()->message().find("stuck since noon"), std::string::npos);
  EXPECT_TRUE(fails_with(lease.release(), Errc::kBroken));
  const auto info = root.inspect("orders");
  ASSERT_TRUE(info && *info && (*info)->last_break);
  EXPECT_EQ((*info)->last_break->token, lease.token());
}

TEST_P(LeaseTest, ABreakEndsALockDelay) {
  const Client alice = connect();
  const Client bob = connect();
  if (alice.guarantees().ends_with_client) {
    GTEST_SKIP() << "skipped by capability: no lock-delay, as leases end with their client";
  }
  const Lease lease = take(alice.mutex("orders"), {.ttl = 60s, .lock_delay = 1h});
  ASSERT_TRUE(bob.break_lock("orders", lease.token(), "stuck"));
  EXPECT_TRUE(bob.mutex("orders").acquire({.wait = kPatience}));
}

// As `holdfast break` does, whose process ends then.
TEST_P(LeaseTest, ABreakIsToldAlsoWhenItsClientIsClosedAtOnce) {
  const Client alice = connect();
  for (int i = 0; i < 20; ++i) {
    const Lease lease = take(alice.mutex("orders"), {.ttl = 60s});
    Client root = connect();
    ASSERT_TRUE(root.break_lock("orders", lease.token()));
    static_cast<void>(root.close(0ms));
    ASSERT_TRUE(fires(lease.lost())) << i;
  }
}

// The reason is another process's text: it must not draw lines of its own, nor on the terminal.
TEST_P(LeaseTest, WhatABreakSaysIsShownEscapedAndNoOtherTryIsPromised) {
  std::mutex mutex;
  std::string log;
  const auto logged = [&](const char* text) {
    const std::lock_guard lock(mutex);
    return log.find(text) != log.npos;
  };
  ClientOptions options;
  options.log = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    log += "<" + line + ">";
  };
  const Client alice = connect(std::move(options));
  const Lease lease = take(alice.mutex("orders"), {.ttl = 60s});
  ASSERT_TRUE(connect().break_lock("orders", lease.token(), "x\nall is well\033[31m\xe2\x80\xae"));
  ASSERT_TRUE(fires(lease.lost()));
  const std::string message = lease.loss().value_or(Error(Errc::kLost, "")).message();
  EXPECT_NE(message.find(R"(x\x0aall is well\x1b[31m\xe2\x80\xae)"), std::string::npos) << message;
  const auto begun = std::chrono::steady_clock::now();
  while (!logged("was lost") && std::chrono::steady_clock::now() - begun < kPatience) {
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_TRUE(logged(R"(x\x0aall is well\x1b[31m)")) << log;
  for (const char* const bad : {"\n", "\033", "\xe2\x80\xae", "will try again"}) {
    EXPECT_FALSE(logged(bad)) << bad << " in " << log;
  }
}

TEST_P(LeaseTest, ADetachedLeaseIsAdoptedByItsId) {
  const Client alice = connect();
  const Client bob = connect();
  std::string id;
  Token token;
  {
    Lease lease = take(alice.mutex("orders {1}"), {.ttl = 30s});
    id = lease.id();
    token = lease.token();
    lease.detach();
    EXPECT_FALSE(lease.held());
  }
  EXPECT_FALSE(is_free(bob.mutex("orders {1}")));
  auto lease = bob.adopt(id);
  ASSERT_TRUE(lease) << lease.error().message();
  EXPECT_TRUE(lease->held());
  EXPECT_EQ(lease->token(), token);
  EXPECT_EQ(lease->name(), "orders {1}");
  ASSERT_TRUE(lease->release());
  EXPECT_TRUE(is_free(alice.mutex("orders {1}")));
  EXPECT_TRUE(fails_with(bob.adopt(id), Errc::kLost));
}

TEST_P(LeaseTest, AnAdoptedLeaseKeepsItsTtl) {
  const Client alice = connect();
  const Client bob = connect();
  Lease lease = take(alice.mutex("orders"), {.ttl = 60s, .auto_renew = false});
  const std::string id = lease.id();
  lease.detach();
  for (int i = 0; i < 3; ++i) {
    auto adopted = bob.adopt(id, {.auto_renew = false});
    ASSERT_TRUE(adopted) << adopted.error().message();
    EXPECT_GT(adopted->remaining(), 50s);
    EXPECT_EQ(adopted->id(), id);
    adopted->detach();
  }
}

// The store never moves the end of a lease back, so it leaves this one as it is.
TEST_P(LeaseTest, ALeaseIsAdoptedWithAShorterTtlToo) {
  const Client alice = connect();
  const Client bob = connect();
  Lease lease = take(alice.mutex("orders"), {.ttl = 60s});
  const std::string id = lease.id();
  lease.detach();
  const auto shorter = shortest_ttl(bob, 1s);
  auto adopted = bob.adopt(id, {.ttl = shorter});
  ASSERT_TRUE(adopted) << adopted.error().message();
  EXPECT_TRUE(adopted->held());
  EXPECT_LE(adopted->remaining(), shorter);
  EXPECT_TRUE(adopted->release());
}

TEST_P(LeaseTest, AnAdoptedLeaseIsRenewed) {
  const Client alice = connect();
  const Client bob = connect();
  Lease lease = take(alice.mutex("orders"), {.ttl = 400ms});
  const std::string id = lease.id();
  lease.detach();
  auto adopted = bob.adopt(id, {.ttl = 400ms});
  ASSERT_TRUE(adopted) << adopted.error().message();
  EXPECT_FALSE(fires(adopted->lost(), 1s));
  EXPECT_TRUE(adopted->held());
}

// Each adopter numbers its requests far above those of the one before.
TEST_P(LeaseTest, ALeaseIsRenewedAfterThousandsOfAdoptions) {
  const Client client = connect();
  Lease lease = take(client.mutex("orders"), {.ttl = 60s, .auto_renew = false});
  const std::string id = lease.id();
  for (int i = 0; i < 2500; ++i) {
    lease.detach();
    auto adopted = client.adopt(id, {.ttl = 60s, .auto_renew = false});
    ASSERT_TRUE(adopted) << i << ": " << adopted.error().message();
    lease = *std::move(adopted);
  }
  for (int i = 0; i < 5; ++i) {
    const auto deadline = lease.deadline_boottime();
    ASSERT_TRUE(lease.renew());
    EXPECT_GT(lease.deadline_boottime(), deadline) << "renewal " << i;
  }
  EXPECT_TRUE(lease.release());
}

TEST_P(LeaseTest, WhatIsNotALeaseIdIsRefused) {
  const Client client = connect();
  for (const char* text : {"", "x", "orders", "hf1:", "hf1:zz:orders"}) {
    EXPECT_TRUE(fails_with(client.adopt(text), Errc::kInvalidArgument)) << text;
  }
}

TEST_P(LeaseTest, ADetachedLeaseRunsOut) {
  const Client client = connect();
  {
    Lease lease = take(client.mutex("orders"), {.ttl = 300ms});
    lease.detach();
  }
  EXPECT_TRUE(client.mutex("orders").acquire({.wait = 2s}));
}

TEST_P(LeaseTest, CloseLosesLeasesAndFreesTheLocks) {
  Client alice = connect();
  const Client bob = connect();
  const Lease lease = take(alice.mutex("orders"), {.ttl = 60s});
  ASSERT_TRUE(alice.close());
  EXPECT_TRUE(fires(lease.lost()));
  EXPECT_FALSE(lease.held());
  EXPECT_TRUE(bob.mutex("orders").acquire({.wait = 5s}));
  EXPECT_TRUE(fails_with(alice.mutex("orders").acquire(), Errc::kClosed));
  EXPECT_TRUE(fails_with(alice.inspect("orders"), Errc::kClosed));
  EXPECT_TRUE(alice.close());
}

TEST_P(LeaseTest, CloseEndsAWait) {
  Client alice = connect();
  const Client bob = connect();
  const Lease lease = take(bob.mutex("orders"));
  std::atomic<bool> queued{false};
  std::thread waiter([&] {
    EXPECT_TRUE(fails_with(alice.mutex("orders").acquire({.on_queued =
                                                              [&](std::uint32_t) {
                                                                queued = true;
                                                                queued.notify_all();
                                                              }}),
                           Errc::kClosed));
  });
  queued.wait(false);
  EXPECT_TRUE(alice.close());
  waiter.join();
  const auto info = bob.inspect("orders");
  ASSERT_TRUE(info && *info);
  EXPECT_TRUE((*info)->waiters.empty());
}

TEST_P(LeaseTest, ManyLeasesAreRenewedTogether) {
  const Client client = connect();
  std::vector<Lease> leases;
  for (int i = 0; i < 300; ++i) {
    leases.push_back(take(client.mutex("bulk/" + std::to_string(i)), {.ttl = 1500ms}));
  }
  EXPECT_FALSE(fires(leases.front().lost(), 3s));
  for (const Lease& lease : leases) EXPECT_TRUE(lease.held()) << lease.name();
}

TEST_P(LeaseTest, ABlockingCallbackDoesNotStopRenewals) {
  const Client client = connect();
  const Lease victim = take(client.mutex("victim"), {.ttl = 200ms, .auto_renew = false});
  const Lease other = take(client.mutex("other"), {.ttl = 400ms});
  std::atomic<bool> entered{false};
  const std::stop_callback slow(victim.lost(), [&] {
    entered = true;
    entered.notify_all();
    std::this_thread::sleep_for(1200ms);
  });
  entered.wait(false);
  std::this_thread::sleep_for(900ms);  // More than two leases of the other one.
  EXPECT_TRUE(other.held());
}

// --- Cancellation, at each phase of a request.

TEST_P(LeaseTest, ACancelledRequestIsNotEvenSent) {
  const Client client = connect();
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(
      fails_with(client.mutex("orders").acquire({.cancel = stop.get_token()}), Errc::kCancelled));
  EXPECT_TRUE(is_free(client.mutex("orders")));
}

TEST_P(LeaseTest, ACancelledWaitLeavesTheQueue) {
  const Client alice = connect();
  const Client bob = connect();
  Lease lease = take(alice.mutex("orders"));
  std::stop_source stop;
  const auto waited = bob.mutex("orders").acquire(
      {.cancel = stop.get_token(), .on_queued = [&](std::uint32_t) { stop.request_stop(); }});
  EXPECT_TRUE(fails_with(waited, Errc::kCancelled));
  const auto info = alice.inspect("orders");
  ASSERT_TRUE(info && *info);
  EXPECT_TRUE((*info)->waiters.empty());
  ASSERT_TRUE(lease.release());
  EXPECT_TRUE(is_free(bob.mutex("orders")));
}

// The callback's data may be gone with the wait. The first callback keeps the thread that calls.
TEST_P(LeaseTest, OnQueuedIsNotCalledWhenTheWaitIsOver) {
  const Client alice = connect();
  Client bob = connect();
  Lease first = take(alice.mutex("first"));
  const Lease second = take(alice.mutex("second"));
  std::promise<void> in_callback;
  std::promise<void> go_on;
  std::atomic<bool> returned{false};
  std::thread waiter([&] {
    const auto got = bob.mutex("first").acquire({.on_queued = [&](std::uint32_t) {
      in_callback.set_value();
      go_on.get_future().wait();
      EXPECT_FALSE(returned);
    }});
    returned = true;
    EXPECT_TRUE(got) << got.error().message();
  });
  in_callback.get_future().wait();
  EXPECT_TRUE(first.release());
  std::atomic<int> calls{0};
  const auto late =
      bob.mutex("second").acquire({.wait = 100ms, .on_queued = [&](std::uint32_t) { ++calls; }});
  EXPECT_TRUE(fails_with(late, Errc::kTimedOut));
  go_on.set_value();
  waiter.join();
  EXPECT_TRUE(bob.close());
  EXPECT_EQ(calls, 0);
}

// A waiter's lease is short, so that a dead one does not stand in the way for long.
TEST_P(LeaseTest, AWaitWithoutRenewalsEndsWithAWholeLease) {
  const Client alice = connect();
  const Client bob = connect();
  Lease lease = take(alice.mutex("orders"));
  const auto waited = bob.mutex("orders").acquire(
      {.ttl = 60s, .auto_renew = false, .on_queued = [&](std::uint32_t) {
         EXPECT_TRUE(lease.release());
       }});
  ASSERT_TRUE(waited) << waited.error().message();
  EXPECT_GT(waited->remaining(), 10s);
}

TEST_P(LeaseTest, ADetachedLeaseThatWasWaitedForIsWhole) {
  const Client alice = connect();
  const Client bob = connect();
  Lease lease = take(alice.mutex("orders"));
  auto waited = bob.mutex("orders").acquire(
      {.ttl = 60s, .on_queued = [&](std::uint32_t) { EXPECT_TRUE(lease.release()); }});
  ASSERT_TRUE(waited) << waited.error().message();
  waited->detach();
  std::chrono::milliseconds left{0};
  const auto until = std::chrono::steady_clock::now() + 5s;
  while (left < 10s && std::chrono::steady_clock::now() < until) {
    const auto info = alice.inspect("orders");
    ASSERT_TRUE(info && *info);
    ASSERT_EQ((*info)->holders.size(), 1U);
    left = (*info)->holders.front().time_left;
  }
  EXPECT_GT(left, 10s);
}

// Cancel and grant cross each other: either answer is right, and neither leaves the lock stuck.
TEST_P(LeaseTest, ACancelThatCrossesTheGrantLeavesNothingHeld) {
  const Client alice = connect();
  const Client bob = connect();
  for (int round = 0; round < 40; ++round) {
    std::optional<Lease> lease = take(alice.mutex("orders"), {.ttl = 60s});
    std::stop_source stop;
    std::atomic<bool> queued{false};
    std::thread waiter([&] {
      const auto got = bob.mutex("orders").acquire(
          {.ttl = 60s, .cancel = stop.get_token(), .on_queued = [&](std::uint32_t) {
             queued = true;
             queued.notify_all();
           }});
      EXPECT_TRUE(got || got.error().code() == Errc::kCancelled) << got.error().message();
    });
    queued.wait(false);
    std::thread canceller([&] { stop.request_stop(); });
    lease.reset();
    canceller.join();
    waiter.join();
    auto next = alice.mutex("orders").acquire({.wait = 5s});
    ASSERT_TRUE(next) << "round " << round << ": " << next.error().message();
  }
}

TEST_P(LeaseTest, ACancelAfterTheGrantChangesNothing) {
  const Client client = connect();
  std::stop_source stop;
  const Lease lease = take(client.mutex("orders"), {.cancel = stop.get_token()});
  stop.request_stop();
  EXPECT_TRUE(lease.held());
}

}  // namespace holdfast::testing
