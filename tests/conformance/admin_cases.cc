// Operations for people: inspect, list, break, watch, values, the doctor's questions.
#include <algorithm>

#include "tests/conformance/harness.h"

namespace holdfast::testing {

namespace {
holdfast::Token shown(Token token) { return {token.epoch, token.counter}; }
}  // namespace

TEST_P(AdminConformance, ABrokenLockGoesToTheNextAndItsHolderIsTold) {
  HOLDFAST_NEEDS_OWN_FORM();
  const auto holder = fresh();
  const auto waiter = fresh();
  const auto grant = client().acquire({"orders", holder});
  ASSERT_TRUE(holds(grant));
  ASSERT_TRUE(waits(client("bob").acquire({"orders", waiter})));
  ASSERT_TRUE(client("root").break_lock("orders", grant->token, "stuck"));
  if (site_->tells_broken_holders()) {
    EXPECT_TRUE(client().inbox().next(holder));
  }
  EXPECT_TRUE(client("bob").inbox().next(waiter));
  EXPECT_TRUE(is_gone(client().renew("orders", holder, 1)));
  const auto next = client("bob").renew("orders", waiter, 1);
  ASSERT_TRUE(holds(next));
  EXPECT_GT(next->token, grant->token);
}

TEST_P(AdminConformance, ARenewalThatNamesItsTokenIsToldWhoBrokeIt) {
  HOLDFAST_NEEDS_OWN_FORM();
  const auto holder = fresh();
  const auto grant = client().acquire({"orders", holder});
  ASSERT_TRUE(holds(grant));
  ASSERT_TRUE(client("root").break_lock("orders", grant->token, "stuck since noon"));
  // Where a session keeps all tickets, a renewal asks nobody: the holder is told.
  if (promised().bound_to_client) {
    ASSERT_TRUE(client().inbox().next(holder));
  }
  const auto results = client().renew({{"orders", holder, 1, kTtl, kWaiterTtl, grant->token}});
  ASSERT_TRUE(results);
  ASSERT_EQ(results->size(), 1U);
  const auto& told = results->front();
  ASSERT_TRUE(fails(told, Errc::kBroken));
  EXPECT_NE(told.error().message().find("root"), std::string::npos);
  EXPECT_NE(told.error().message().find("stuck since noon"), std::string::npos);

  // An owner whose lease merely ended was not broken.
  const auto other = fresh();
  const auto next = client().acquire({"orders", other});
  ASSERT_TRUE(holds(next));
  ASSERT_TRUE(ends(client().release("orders", other), EndStatus::kReleased));
  EXPECT_TRUE(
      is_gone(client().renew({{"orders", other, 1, kTtl, kWaiterTtl, next->token}})->front()));
}

TEST_P(AdminConformance, ABreakByAnotherTokenChangesNothing) {
  HOLDFAST_NEEDS_OWN_FORM();
  const auto first = fresh();
  const auto old = client().acquire({"orders", first});
  ASSERT_TRUE(holds(old));
  ASSERT_TRUE(ends(client().release("orders", first), EndStatus::kReleased));
  const auto holder = fresh();
  const auto grant = client().acquire({"orders", holder});
  ASSERT_TRUE(holds(grant));
  Token later = grant->token;
  ++later.counter;
  EXPECT_TRUE(fails(client().break_lock("orders", old->token), Errc::kLost));
  EXPECT_TRUE(fails(client().break_lock("orders", later), Errc::kLost));
  EXPECT_TRUE(fails(client().break_lock("never/used", grant->token), Errc::kLost));
  EXPECT_TRUE(holds(client().renew("orders", holder, 1)));
  const auto info = client().inspect("orders");
  ASSERT_TRUE(info && *info);
  EXPECT_FALSE((*info)->last_break);
}

TEST_P(AdminConformance, ABreakLeavesATraceThatStays) {
  HOLDFAST_NEEDS_OWN_FORM();
  const auto grant = client().acquire({"orders", fresh()});
  ASSERT_TRUE(holds(grant));
  ASSERT_TRUE(client("root").break_lock("orders", grant->token, "host is gone"));
  for (int round = 0; round < 2; ++round) {
    const auto info = client("bob").inspect("orders");
    ASSERT_TRUE(info && *info);
    ASSERT_TRUE((*info)->last_break);
    EXPECT_EQ((*info)->last_break->token, shown(grant->token));
    EXPECT_EQ((*info)->last_break->by.owner, "root");
    EXPECT_EQ((*info)->last_break->by.reason, "host is gone");
    const auto id = fresh();
    // A composite's broken holder may leave its other store a moment later.
    ASSERT_TRUE(is_granted("bob", Request("orders", id).leases(5s, 5s), 5s));
    if (promised().bound_to_client) {
      ASSERT_TRUE(ends(client("bob").release("orders", id), EndStatus::kReleased));
    }
    pass(5s);
  }
}

TEST_P(AdminConformance, InspectShowsWhoHoldsAndWhoWaitsInOrder) {
  HOLDFAST_NEEDS_KEPT_WAITERS();
  HOLDFAST_NEEDS_OWN_FORM();
  HOLDFAST_NEEDS(site_->shows_waiters(), "most waiters are unknown to the store that is asked");
  const auto grant = client().acquire(Request("orders", fresh()).leases(20s, 5s));
  ASSERT_TRUE(holds(grant));
  ASSERT_TRUE(waits(client("bob").acquire({"orders", fresh()})));
  ASSERT_TRUE(waits(client("carol").acquire({"orders", fresh()})));
  pass(1500ms);
  const auto info = client("dan").inspect("orders");
  ASSERT_TRUE(info && *info);
  const LockInfo& lock = **info;
  EXPECT_EQ(lock.name, "orders");
  EXPECT_FALSE(lock.permits);
  EXPECT_EQ(lock.last_token, shown(grant->token));
  ASSERT_EQ(lock.holders.size(), 1U);
  EXPECT_EQ(lock.holders[0].who.owner, "alice");
  EXPECT_EQ(lock.holders[0].who.host, "here");
  EXPECT_EQ(lock.holders[0].who.pid, 42);
  EXPECT_EQ(lock.holders[0].who.program, "conformance");
  EXPECT_EQ(lock.holders[0].who.reason, "because");
  EXPECT_EQ(lock.holders[0].who.trace_id, "00-4bf92f35-01");
  EXPECT_EQ(std::chrono::system_clock::to_time_t(lock.holders[0].who.since), 1'700'000'000);
  EXPECT_EQ(lock.holders[0].token, shown(grant->token));
  EXPECT_EQ(lock.holders[0].mode, holdfast::Mode::exclusive());
  if (!promised().bound_to_client) {
    EXPECT_EQ(lock.holders[0].time_left, 18500ms);
  }
  ASSERT_EQ(lock.waiters.size(), 2U);
  EXPECT_EQ(lock.waiters[0].who.owner, "bob");
  EXPECT_EQ(lock.waiters[1].who.owner, "carol");
  if (!promised().bound_to_client) {
    EXPECT_EQ(lock.waiters[0].time_left, 3500ms);
  }
}

TEST_P(AdminConformance, InspectShowsAllReadersAndPermits) {
  HOLDFAST_NEEDS(promised().shared && promised().permits, "exclusive locks only");
  ASSERT_TRUE(holds(client().acquire({"doc", fresh(), Mode::shared()})));
  ASSERT_TRUE(holds(client("bob").acquire({"doc", fresh(), Mode::shared()})));
  const auto doc = client().inspect("doc");
  ASSERT_TRUE(doc && *doc);
  ASSERT_EQ((*doc)->holders.size(), 2U);
  EXPECT_EQ((*doc)->holders[1].mode, holdfast::Mode::shared());

  ASSERT_TRUE(holds(client().acquire({"pool", fresh(), Mode::of_permits(2, 5)})));
  const auto pool = client().inspect("pool");
  ASSERT_TRUE(pool && *pool);
  EXPECT_TRUE((*pool)->permits);
  EXPECT_EQ((*pool)->capacity, 5U);
  ASSERT_EQ((*pool)->holders.size(), 1U);
  EXPECT_EQ((*pool)->holders[0].mode, holdfast::Mode::permits(2, 5));
}

TEST_P(AdminConformance, NothingIsKnownOfANameThatWasNeverUsed) {
  HOLDFAST_NEEDS(site_->shows_holders(), "no inspect");
  const auto info = client().inspect("never/used");
  ASSERT_TRUE(info);
  EXPECT_FALSE(*info);
}

TEST_P(AdminConformance, AReleasedLockHasNobody) {
  HOLDFAST_NEEDS(site_->shows_holders(), "no inspect");
  const auto id = fresh();
  ASSERT_TRUE(holds(client().acquire({"orders", id})));
  ASSERT_TRUE(ends(client().release("orders", id), EndStatus::kReleased));
  const auto info = client().inspect("orders");
  ASSERT_TRUE(info);
  if (*info) {
    EXPECT_TRUE((*info)->holders.empty());
    EXPECT_TRUE((*info)->waiters.empty());
  }
}

TEST_P(AdminConformance, ListShowsWhatIsInUseByPrefixInOrder) {
  HOLDFAST_NEEDS(promised().list, "no list");
  for (const char* name : {"b/2", "a/1", "b/1", "b", "c"}) {
    ASSERT_TRUE(holds(client().acquire({name, fresh()})));
  }
  const auto gone = fresh();
  ASSERT_TRUE(holds(client().acquire({"b/gone", gone})));
  ASSERT_TRUE(ends(client().release("b/gone", gone), EndStatus::kReleased));
  if (!promised().bound_to_client) {
    ASSERT_TRUE(holds(client().acquire(Request("b/over", fresh()).leases(1s, 1s))));
    pass(1s);
  }

  const auto names = [&](const std::string& prefix, std::size_t limit) {
    std::vector<std::string> found;
    const auto locks = client("bob").list(prefix, limit);
    EXPECT_TRUE(locks);
    if (locks) {
      for (const LockInfo& lock : *locks) found.push_back(lock.name);
    }
    return found;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names("", 100), (Names{"a/1", "b", "b/1", "b/2", "c"}));
  EXPECT_EQ(names("b/", 100), (Names{"b/1", "b/2"}));
  EXPECT_EQ(names("b", 100), (Names{"b", "b/1", "b/2"}));
  EXPECT_EQ(names("", 2), (Names{"a/1", "b"}));
  EXPECT_EQ(names("d", 100), Names{});
}

TEST_P(AdminConformance, AValueIsTheHoldersToSetAndStays) {
  HOLDFAST_NEEDS(promised().values, "no values");
  const auto id = fresh();
  const auto waiter = fresh();
  ASSERT_TRUE(holds(client().acquire({"orders", id})));
  ASSERT_TRUE(waits(client("bob").acquire({"orders", waiter})));
  const std::string value("binary \0 value", 14);
  ASSERT_TRUE(client().set_value("orders", id, value));
  EXPECT_TRUE(fails(client("bob").set_value("orders", waiter, "mine"), Errc::kLost));
  EXPECT_EQ(*client("bob").get_value("orders"), value);
  ASSERT_TRUE(ends(client().release("orders", id), EndStatus::kReleased));
  EXPECT_TRUE(fails(client().set_value("orders", id, "late"), Errc::kLost));
  EXPECT_EQ(*client("bob").get_value("orders"), value);
  ASSERT_TRUE(holds(client("bob").renew("orders", waiter, 1)));
  ASSERT_TRUE(ends(client("bob").release("orders", waiter), EndStatus::kReleased));
  if (!promised().bound_to_client) pass(3600s);
  EXPECT_EQ(*client("bob").get_value("orders"), value);
}

TEST_P(AdminConformance, AValueHasALimit) {
  HOLDFAST_NEEDS(promised().values, "no values");
  const auto id = fresh();
  ASSERT_TRUE(holds(client().acquire({"orders", id})));
  ASSERT_TRUE(client().set_value("orders", id, std::string(4096, 'x')));
  EXPECT_TRUE(
      fails(client().set_value("orders", id, std::string(4097, 'y')), Errc::kInvalidArgument));
  EXPECT_EQ(*client().get_value("orders"), std::string(4096, 'x'));
  EXPECT_EQ(*client().get_value("another"), "");
}

// A watch gives hints: one may come too many, and none comes before the store has begun to listen.
// So the value is set until somebody is told.
TEST_P(AdminConformance, WhoWatchesAValueIsToldThatItWasSet) {
  HOLDFAST_NEEDS(promised().values, "no values");
  struct Told {
    std::mutex mutex;
    std::condition_variable changed;
    int orders = 0;
    bool await_one() {
      std::unique_lock lock(mutex);
      return changed.wait_for(lock, 50ms, [&] { return std::exchange(orders, 0) > 0; });
    }
    void clear() {
      const std::lock_guard lock(mutex);
      orders = 0;
    }
  };
  const auto told = std::make_shared<Told>();
  const auto watch = client("bob").store().watch_value("orders", [told] {
    const std::lock_guard lock(told->mutex);
    ++told->orders;
    told->changed.notify_all();
  });
  HOLDFAST_NEEDS(watch.impl != nullptr && site_->tells_values(), "changes of values are not told");
  for (const char* const by : {"alice", "bob"}) {
    const auto id = fresh();
    ASSERT_TRUE(holds(client(by).acquire({"orders", id})));
    const auto until = std::chrono::steady_clock::now() + kPatience;
    bool heard = false;
    while (!heard && std::chrono::steady_clock::now() < until) {
      told->clear();
      ASSERT_TRUE(client(by).set_value("orders", id, "by " + std::string(by)));
      heard = told->await_one();
    }
    EXPECT_TRUE(heard) << by;
    ASSERT_TRUE(ends(client(by).release("orders", id), EndStatus::kReleased));
  }
}

// Collects events on the loop.
class EventLog {
 public:
  port::EventSink sink() {
    return [this](const LockEvent& event) {
      const std::lock_guard lock(mutex_);
      events_.push_back(event);
      condition_.notify_all();  // With the mutex: whoever waits may let the log go after that.
    };
  }
  std::vector<LockEvent> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    condition_.wait_for(lock, kPatience, [&] { return events_.size() >= count; });
    return events_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  std::vector<LockEvent> events_;
};

TEST_P(AdminConformance, AWatchSeesEveryChangeInOrder) {
  HOLDFAST_NEEDS(promised().watch_every_change, "a watch samples");
  EventLog log;
  const auto watch = client("carol").watch("w/", log.sink());
  ASSERT_TRUE(watch) << watch.error().message();
  const auto first = fresh();
  const auto second = fresh();
  const auto third = fresh();
  const auto grant = client().acquire({"w/1", first});
  ASSERT_TRUE(holds(grant));
  ASSERT_TRUE(holds(client().acquire({"elsewhere", fresh()})));
  ASSERT_TRUE(waits(client("bob").acquire({"w/1", second})));
  ASSERT_TRUE(waits(client("bob").acquire({"w/1", third})));
  ASSERT_TRUE(ends(client().release("w/1", first), EndStatus::kReleased));
  ASSERT_TRUE(ends(client("bob").cancel("w/1", third), EndStatus::kCancelled));
  const auto now = client("bob").renew("w/1", second, 1);
  ASSERT_TRUE(holds(now));
  ASSERT_TRUE(client().break_lock("w/1", now->token, "tidy up"));
  const auto events = log.wait_for(7);
  using Kind = LockEventKind;
  const std::vector<Kind> expected{Kind::kGranted, Kind::kQueued,    Kind::kQueued, Kind::kReleased,
                                   Kind::kGranted, Kind::kCancelled, Kind::kBroken};
  ASSERT_EQ(events.size(), expected.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].kind, expected[i]) << "event " << i;
    EXPECT_EQ(events[i].name, "w/1");
  }
  EXPECT_EQ(events[0].who.owner, "alice");
  EXPECT_EQ(events[0].token, shown(grant->token));
  EXPECT_EQ(events[0].time_left, 30s);
  EXPECT_EQ(events[3].token, shown(grant->token));
  EXPECT_EQ(events[4].who.owner, "bob");
  EXPECT_EQ(events[4].token, shown(now->token));
}

TEST_P(AdminConformance, AnEndedWatchIsSilent) {
  HOLDFAST_NEEDS(promised().watch_every_change, "a watch samples");
  EventLog ended;
  EventLog going_on;
  auto first = client("carol").watch("", ended.sink());
  const auto second = client("carol").watch("", going_on.sink());
  ASSERT_TRUE(first && second);
  ASSERT_TRUE(holds(client().acquire({"one", fresh()})));
  ASSERT_EQ(ended.wait_for(1).size(), 1U);
  first->impl.reset();
  ASSERT_TRUE(holds(client().acquire({"two", fresh()})));
  ASSERT_EQ(going_on.wait_for(2).size(), 2U);
  EXPECT_EQ(ended.wait_for(0).size(), 1U);
}

TEST_P(AdminConformance, AStoreWithoutEveryChangeRefusesToWatch) {
  HOLDFAST_NEEDS(!promised().watch_every_change, "this store sees every change");
  std::optional<Errc> refused;  // At once, on this thread.
  client().store().watch(
      "", [](const LockEvent&) {}, base::BootClock::now() + 1s,
      [&](const Result<port::WatchHandle>& watch) {
        if (!watch) refused = watch.error().code();
      });
  EXPECT_EQ(refused, Errc::kUnsupported);
}

TEST_P(AdminConformance, TheProbeFindsSomethingAndNoProblem) {
  const auto findings = client().probe();
  ASSERT_TRUE(findings) << findings.error().message();
  EXPECT_FALSE(findings->empty());
  for (const Finding& finding : *findings) {
    EXPECT_NE(finding.severity, Severity::kProblem) << finding.what;
    EXPECT_FALSE(finding.topic.empty());
    EXPECT_FALSE(finding.what.empty());
  }
}

TEST_P(AdminConformance, ThePromisesNameTheStoreItsScopeAndFaults) {
  EXPECT_FALSE(promised().store.empty());
  EXPECT_FALSE(promised().scope.empty());
  EXPECT_GE(promised().faults.size(), 3U);
  for (const FaultRow& row : promised().faults) {
    EXPECT_FALSE(row.fault.empty());
    // A guarantee that may be violated has an explanation.
    EXPECT_FALSE(row.note.empty() &&
                 (row.exclusion != Guarantee::kYes || row.fencing != Guarantee::kYes))
        << row.fault;
  }
}

}  // namespace holdfast::testing
