// First come, first served; a release hands on in the same step; the dead cost their own lease.
#include "tests/conformance/harness.h"

namespace holdfast::testing {

TEST_P(QueueConformance, GrantsComeInTheOrderOfArrival) {
  HOLDFAST_NEEDS(promised().fair, "grants in no order");
  std::vector<AcquisitionId> ids;
  for (int i = 0; i < 6; ++i) {
    ids.push_back(fresh());
    const auto asked = client(i % 2 == 0 ? "alice" : "bob").acquire({"orders", ids.back()});
    ASSERT_TRUE(i == 0 ? holds(asked) : waits(asked));
  }
  Token last{};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    Client& owner = client(i % 2 == 0 ? "alice" : "bob");
    const auto now = owner.renew("orders", ids[i], 1);
    ASSERT_TRUE(holds(now)) << "number " << i;
    EXPECT_GT(now->token, last);
    last = now->token;
    for (std::size_t later = i + 1; later < ids.size(); ++later) {
      Client& waiter = client(later % 2 == 0 ? "alice" : "bob");
      EXPECT_TRUE(waits(waiter.renew("orders", ids[later], 2 + i))) << later << " behind " << i;
    }
    ASSERT_TRUE(ends(owner.release("orders", ids[i]), EndStatus::kReleased));
  }
}

TEST_P(QueueConformance, AWaiterIsToldHowManyStandBeforeIt) {
  ASSERT_TRUE(holds(client().acquire({"orders", fresh()})));
  for (std::uint32_t ahead = 0; ahead < 5; ++ahead) {
    const auto asked = client().acquire({"orders", fresh()});
    ASSERT_TRUE(waits(asked));
    EXPECT_EQ(asked->ahead, ahead);
  }
}

TEST_P(QueueConformance, AWaiterIsToldWhenTheHolderEnds) {
  HOLDFAST_NEEDS_OWN_LEASES();
  ASSERT_TRUE(holds(client().acquire(Request("orders", fresh()).leases(20s, 5s))));
  pass(5s);
  const auto asked = client("bob").acquire({"orders", fresh()});
  ASSERT_TRUE(waits(asked));
  ASSERT_TRUE(asked->next_expiry);
  EXPECT_LE(*asked->next_expiry, 15s);
  EXPECT_GT(*asked->next_expiry, 14s);
}

TEST_P(QueueConformance, AReleaseTellsExactlyTheWaiterThatHoldsNow) {
  HOLDFAST_NEEDS(promised().fair, "no order among clients");
  const auto holder = fresh();
  const auto first = fresh();
  const auto second = fresh();
  ASSERT_TRUE(holds(client().acquire({"orders", holder})));
  ASSERT_TRUE(waits(client("bob").acquire({"orders", first})));
  ASSERT_TRUE(waits(client("carol").acquire({"orders", second})));
  ASSERT_TRUE(ends(client().release("orders", holder), EndStatus::kReleased));
  const auto push = client("bob").inbox().next(first);
  ASSERT_TRUE(push);
  const auto now = client("bob").renew("orders", first, 1);
  ASSERT_TRUE(holds(now));
  if (push->kind == Push::Kind::kGranted) {
    EXPECT_EQ(push->state.token, now->token);
  }
  EXPECT_TRUE(waits(client("carol").renew("orders", second, 1)));
  EXPECT_EQ(client("carol").inbox().count(second), 0U);
  EXPECT_EQ(client().inbox().count(holder), 0U);
}

TEST_P(QueueConformance, AClientIsToldOfItsOwnWaiters) {
  const auto holder = fresh();
  const auto waiter = fresh();
  ASSERT_TRUE(holds(client().acquire({"orders", holder})));
  ASSERT_TRUE(waits(client().acquire({"orders", waiter})));
  ASSERT_TRUE(ends(client().release("orders", holder), EndStatus::kReleased));
  EXPECT_TRUE(client().inbox().next(waiter));
}

// The new holder counts its deadline from its own heartbeat: it must learn which one counts.
TEST_P(QueueConformance, AHandoffInheritsTheWaitersLeaseAndNamesItsHeartbeat) {
  HOLDFAST_NEEDS_KEPT_WAITERS();
  HOLDFAST_NEEDS_OWN_LEASES();
  HOLDFAST_NEEDS(site_->decides_at_once(), "the next holder asks for its lease");
  const auto holder = fresh();
  const auto waiter = fresh();
  ASSERT_TRUE(holds(client().acquire({"orders", holder})));
  ASSERT_TRUE(waits(client("bob").acquire({"orders", waiter})));
  pass(1s);
  ASSERT_TRUE(waits(client("bob").renew("orders", waiter, 4, kTtl, 6s)));
  pass(2s);
  ASSERT_TRUE(ends(client().release("orders", holder), EndStatus::kReleased));
  const auto push = client("bob").inbox().next(waiter);
  ASSERT_TRUE(push);
  if (push->kind == Push::Kind::kGranted) {
    EXPECT_EQ(push->state.seq, 4U);
    EXPECT_EQ(push->state.lease, Duration(6s));
  }
  const auto asked = client("bob").acquire({"orders", waiter});  // Changes nothing: a way to read.
  ASSERT_TRUE(holds(asked));
  EXPECT_EQ(asked->seq, 4U);
  EXPECT_EQ(asked->lease, Duration(6s));
  pass(3s);
  EXPECT_TRUE(is_busy(client().acquire(Request("orders", fresh()).no_wait())));
  pass(1s);  // Six seconds after that heartbeat.
  EXPECT_TRUE(holds(client().acquire(Request("orders", fresh()).no_wait())));
  EXPECT_TRUE(is_gone(client("bob").renew("orders", waiter, 5)));
}

TEST_P(QueueConformance, AHandoffToOneThatNeverBeatNamesItsRequest) {
  HOLDFAST_NEEDS_KEPT_WAITERS();
  HOLDFAST_NEEDS_OWN_LEASES();
  HOLDFAST_NEEDS(site_->decides_at_once(), "the next holder asks for its lease");
  const auto holder = fresh();
  const auto waiter = fresh();
  ASSERT_TRUE(holds(client().acquire({"orders", holder})));
  ASSERT_TRUE(waits(client("bob").acquire({"orders", waiter})));
  ASSERT_TRUE(ends(client().release("orders", holder), EndStatus::kReleased));
  const auto asked = client("bob").acquire({"orders", waiter});
  ASSERT_TRUE(holds(asked));
  EXPECT_EQ(asked->seq, 0U);
  EXPECT_EQ(asked->lease, kWaiterTtl);
}

TEST_P(QueueConformance, TheFirstRenewalAfterAHandoffGivesTheFullLease) {
  HOLDFAST_NEEDS_OWN_LEASES();
  HOLDFAST_NEEDS(site_->decides_at_once(), "a heartbeat may meet the grant on its way");
  const auto holder = fresh();
  const auto waiter = fresh();
  ASSERT_TRUE(holds(client().acquire({"orders", holder})));
  ASSERT_TRUE(waits(client("bob").acquire({"orders", waiter})));
  ASSERT_TRUE(ends(client().release("orders", holder), EndStatus::kReleased));
  const auto full = client("bob").renew("orders", waiter, 1);
  ASSERT_TRUE(holds(full));
  // A client that waits by itself may have taken the lock just before, for its earlier request.
  if (site_->keeps_waiters()) {
    EXPECT_EQ(full->seq, 1U);
  }
  EXPECT_EQ(full->lease, kTtl);
  pass(kTtl - 1s);
  EXPECT_TRUE(is_busy(client().acquire(Request("orders", fresh()).no_wait())));
}

TEST_P(QueueConformance, ANewcomerStandsBehindThoseWhoWait) {
  HOLDFAST_NEEDS(promised().fair, "no order among clients");
  const auto holder = fresh();
  const auto waiter = fresh();
  ASSERT_TRUE(holds(client().acquire({"orders", holder})));
  ASSERT_TRUE(waits(client("bob").acquire({"orders", waiter})));
  ASSERT_TRUE(ends(client().release("orders", holder), EndStatus::kReleased));
  EXPECT_TRUE(is_busy(client().acquire(Request("orders", fresh()).no_wait())));
  EXPECT_TRUE(holds(client("bob").renew("orders", waiter, 1)));
}

TEST_P(QueueConformance, ACancelAnywhereInTheQueueLetsTheOthersGoOn) {
  for (std::size_t leaver = 0; leaver < 3; ++leaver) {
    const std::string name = "orders/" + std::to_string(leaver);
    const auto holder = fresh();
    std::vector<AcquisitionId> queue{fresh(), fresh(), fresh()};
    ASSERT_TRUE(holds(client().acquire({name, holder})));
    for (const auto& id : queue) ASSERT_TRUE(waits(client("bob").acquire({name, id})));
    EXPECT_TRUE(ends(client("bob").cancel(name, queue[leaver]), EndStatus::kCancelled));
    EXPECT_TRUE(is_gone(client("bob").renew(name, queue[leaver], 1)));
    queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(leaver));
    ASSERT_TRUE(ends(client().release(name, holder), EndStatus::kReleased));
    for (const auto& id : queue) {
      EXPECT_TRUE(holds(client("bob").renew(name, id, 1)));
      EXPECT_TRUE(ends(client("bob").release(name, id), EndStatus::kReleased));
    }
  }
}

TEST_P(QueueConformance, ADeadWaiterAnywhereInTheQueueCostsAtMostItsLease) {
  HOLDFAST_NEEDS_KEPT_WAITERS();
  HOLDFAST_NEEDS_OWN_LEASES();
  for (std::size_t dead = 0; dead < 3; ++dead) {
    const std::string name = "orders/" + std::to_string(dead);
    const auto holder = fresh();
    const std::vector<AcquisitionId> queue{fresh(), fresh(), fresh()};
    ASSERT_TRUE(holds(client().acquire({name, holder})));
    for (const auto& id : queue) ASSERT_TRUE(waits(client("bob").acquire({name, id})));
    pass(kWaiterTtl - 1s);
    for (std::size_t i = 0; i < 3; ++i) {
      if (i != dead) {
        ASSERT_TRUE(waits(client("bob").renew(name, queue[i], 1)));
      }
    }
    ASSERT_TRUE(ends(client().release(name, holder), EndStatus::kReleased));
    pass(1s);  // The dead one's ticket is over now, granted or not.
    for (std::size_t i = 0; i < 3; ++i) {
      auto asked = client("bob").renew(name, queue[i], 2);
      if (i == dead) {
        EXPECT_TRUE(is_gone(asked));
        continue;
      }
      // A heartbeat may meet the grant on its way.
      for (std::uint64_t seq = 3; !site_->decides_at_once() && waits(asked); ++seq) {
        ASSERT_TRUE(client("bob").inbox().next(queue[i], kPatience));
        asked = client("bob").renew(name, queue[i], seq);
      }
      EXPECT_TRUE(holds(asked)) << "waiter " << i << ", dead is " << dead;
      EXPECT_TRUE(ends(client("bob").release(name, queue[i]), EndStatus::kReleased));
    }
  }
}

TEST_P(QueueConformance, AFullQueueRefusesAndChangesNothing) {
  const auto holder = fresh();
  const auto waiter = fresh();
  ASSERT_TRUE(holds(client().acquire({"orders", holder})));
  ASSERT_TRUE(waits(client().acquire(Request("orders", waiter).limit(1))));
  EXPECT_TRUE(fails(client().acquire(Request("orders", fresh()).limit(1)), Errc::kQueueFull));
  EXPECT_TRUE(waits(client().acquire(Request("orders", fresh()).limit(2))));
  EXPECT_TRUE(waits(client().acquire(Request("orders", waiter).limit(1))));  // Known already.
}

TEST_P(QueueConformance, ManyReadersBehindAWriterAreAllAdmitted) {
  HOLDFAST_NEEDS(promised().shared, "no shared locks");
  const auto writer = fresh();
  // A long lease, as the readers have: it takes a while until all stand there.
  ASSERT_TRUE(holds(client().acquire(Request("orders", writer).leases(60s, 60s))));
  std::vector<AcquisitionId> readers;
  for (int i = 0; i < 200; ++i) {  // More than one step admits, which is 128.
    readers.push_back(fresh());
    ASSERT_TRUE(waits(
        client().acquire(Request("orders", readers.back(), Mode::shared()).leases(60s, 60s))));
  }
  ASSERT_TRUE(ends(client().release("orders", writer), EndStatus::kReleased));
  for (std::size_t i = 0; i < readers.size(); ++i) {
    ASSERT_TRUE(holds(client().renew("orders", readers[i], 1))) << "reader " << i;
  }
}

}  // namespace holdfast::testing
