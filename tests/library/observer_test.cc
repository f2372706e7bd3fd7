// Observers are told of waits, holds, renewals and losses.
#include <condition_variable>
#include <map>
#include <mutex>
#include <vector>

#include "tests/library/fixture.h"

namespace holdfast::testing {

// A machine may stand still for seconds; nothing here is expected to be fast.
constexpr auto kNewsPatience = 60s;

class ObserverNotes final : public Observer {
 public:
  void acquire_ended(const AcquireSeen& seen) override { keep(acquires_, seen); }
  void hold_ended(const HoldSeen& seen) override { keep(holds_, seen); }
  void renewal_done(const RenewalSeen& seen) override { keep(renewals_, seen); }
  void queue_seen(const QueueSeen& seen) override { keep(queues_, seen); }

  std::vector<AcquireSeen> acquires(std::size_t count) { return await(acquires_, count); }
  std::vector<HoldSeen> holds(std::size_t count) { return await(holds_, count); }
  std::vector<RenewalSeen> renewals(std::size_t count) { return await(renewals_, count); }
  std::vector<QueueSeen> queues(std::size_t count) { return await(queues_, count); }
  std::size_t holds_so_far() {
    const std::lock_guard lock(mutex_);
    return holds_.size();
  }

 private:
  template <typename T>
  void keep(std::vector<T>& kept, const T& seen) {
    const std::lock_guard lock(mutex_);
    kept.push_back(seen);
    changed_.notify_all();
  }
  template <typename T>
  std::vector<T> await(std::vector<T>& kept, std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kNewsPatience, [&] { return kept.size() >= count; }))
        << kept.size() << " of " << count;
    if (kept.size() < count) std::abort();
    return kept;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<AcquireSeen> acquires_;
  std::vector<HoldSeen> holds_;
  std::vector<RenewalSeen> renewals_;
  std::vector<QueueSeen> queues_;
};

class ObserverTest : public LibraryTest {
 protected:
  Client observed(ClientOptions options = {}) {
    options.observer = notes_;
    return connect(std::move(options));
  }
  std::shared_ptr<ObserverNotes> notes_ = std::make_shared<ObserverNotes>();
};
HOLDFAST_ON_EVERY_STORE(ObserverTest);

TEST_P(ObserverTest, AFreeLockIsAGrantWithoutQueueAndAHold) {
  const Client client = observed();
  Lease lease = take(client.mutex("orders"));
  const Token token = lease.token();
  std::this_thread::sleep_for(20ms);
  ASSERT_TRUE(lease.release());
  const AcquireSeen grant = notes_->acquires(1)[0];
  EXPECT_EQ(grant.lock.name, "orders");
  EXPECT_EQ(grant.lock.mode, Mode::exclusive());
  EXPECT_EQ(grant.lock.store, GetParam());
  EXPECT_EQ(grant.outcome, AcquireOutcome::kGranted);
  EXPECT_FALSE(grant.error);
  EXPECT_FALSE(grant.queued);
  EXPECT_GT(grant.wait, 0ns);
  EXPECT_EQ(grant.token, token);
  const HoldSeen hold = notes_->holds(1)[0];
  EXPECT_EQ(hold.lock.name, "orders");
  EXPECT_EQ(hold.how, HoldEnd::kReleased);
  EXPECT_FALSE(is_loss(hold.how));
  EXPECT_GE(hold.held, 20ms);
  EXPECT_EQ(hold.token, token);
}

TEST_P(ObserverTest, AGrantFromTheQueueIsAHandoffThatWaited) {
  const Client holder = connect();
  const Client client = observed();
  std::optional<Lease> first = take(holder.mutex("orders"));
  auto waiting = std::async(std::launch::async, [&] { return take(client.mutex("orders")); });
  EXPECT_EQ(notes_->queues(1)[0].ahead, 0U);
  std::this_thread::sleep_for(20ms);
  ASSERT_TRUE(first->release());
  waiting.get();
  const AcquireSeen grant = notes_->acquires(1)[0];
  EXPECT_EQ(grant.outcome, AcquireOutcome::kGranted);
  EXPECT_TRUE(grant.queued);
  EXPECT_GE(grant.wait, 20ms);
}

TEST_P(ObserverTest, TheSecondInTheQueueHasOneAhead) {
  const Client holder = connect();
  const Client client = observed();
  const Lease first = take(holder.mutex("orders"));
  std::stop_source stop;
  const auto wait = [&] { return client.mutex("orders").acquire({.cancel = stop.get_token()}); };
  auto second = std::async(std::launch::async, wait);
  notes_->queues(1);
  auto third = std::async(std::launch::async, wait);
  EXPECT_EQ(notes_->queues(2)[1].ahead, 1U);
  stop.request_stop();
  EXPECT_TRUE(fails_with(second.get(), Errc::kCancelled));
  EXPECT_TRUE(fails_with(third.get(), Errc::kCancelled));
  std::uint32_t ahead = 0;
  for (const AcquireSeen& seen : notes_->acquires(2)) {
    EXPECT_EQ(seen.outcome, AcquireOutcome::kCancelled);
    EXPECT_EQ(seen.error, Errc::kCancelled);
    EXPECT_TRUE(seen.queued);
    ahead = std::max(ahead, seen.ahead);
  }
  EXPECT_EQ(ahead, 1U);
}

TEST_P(ObserverTest, BusyAndTimedOutAreToldApart) {
  const Client holder = connect();
  const Client client = observed();
  const Lease first = take(holder.mutex("orders"));
  ASSERT_TRUE(client.mutex("orders").try_acquire());
  EXPECT_TRUE(fails_with(client.mutex("orders").acquire({.wait = 30ms}), Errc::kTimedOut));
  const auto seen = notes_->acquires(2);
  EXPECT_EQ(seen[0].outcome, AcquireOutcome::kBusy);
  EXPECT_FALSE(seen[0].error);
  EXPECT_EQ(seen[1].outcome, AcquireOutcome::kTimedOut);
  EXPECT_EQ(seen[1].error, Errc::kTimedOut);
  EXPECT_GE(seen[1].wait, 30ms);
}

TEST_P(ObserverTest, RenewalsHaveARoundTrip) {
  const Client client = observed();
  Lease lease = take(client.mutex("orders"), {.ttl = 60s});
  ASSERT_TRUE(lease.renew());
  const RenewalSeen seen = notes_->renewals(1)[0];
  EXPECT_EQ(seen.lock.name, "orders");
  EXPECT_FALSE(seen.error);
  EXPECT_GE(seen.lateness, 0ns);
  EXPECT_GT(seen.round_trip, 0ns);
}

TEST_P(ObserverTest, HowAHoldEndedIsTold) {
  const Client client = observed();
  const Client root = connect();
  const Lease expired = take(client.mutex("expired"), {.ttl = 150ms, .auto_renew = false});
  EXPECT_EQ(notes_->holds(1)[0].how, HoldEnd::kExpired);
  const Lease bounded = take(client.mutex("bounded"), {.ttl = 60s, .max_hold = 50ms});
  const HoldSeen too_long = notes_->holds(2)[1];
  EXPECT_EQ(too_long.how, HoldEnd::kMaxHold);
  EXPECT_GE(too_long.held, 50ms);
  Lease broken = take(client.mutex("broken"), {.ttl = 60s});
  ASSERT_TRUE(root.break_lock("broken", broken.token(), "a test"));
  EXPECT_FALSE(broken.renew());
  EXPECT_EQ(notes_->holds(3)[2].how, HoldEnd::kBroken);
  Lease detached = take(client.mutex("detached"), {.ttl = 60s});
  const std::string id = detached.id();
  detached.detach();
  EXPECT_EQ(notes_->holds(4)[3].how, HoldEnd::kDetached);
  auto adopted = client.adopt(id);
  ASSERT_TRUE(adopted) << adopted.error().message();
  ASSERT_TRUE(adopted->release());
  EXPECT_EQ(notes_->holds(5)[4].how, HoldEnd::kReleased);
}

// Its destructor comes before the thread that watches over deadlines.
TEST_P(ObserverTest, AHoldThatRanOutRightBeforeItIsLetGoIsALoss) {
  const Client client = observed();
  for (std::size_t i = 1; i <= 10; ++i) {
    {
      const Lease lease =
          client.mutex("name").acquire({.wait = 60s, .ttl = 100ms, .auto_renew = false}).value();
      while (lease.held()) std::this_thread::yield();
    }
    EXPECT_EQ(notes_->holds(i)[i - 1].how, HoldEnd::kExpired);
  }
}

TEST_P(ObserverTest, EachLockOfASetHasItsOwnNews) {
  const Client client = observed();
  const Lease other = take(connect().mutex("c"));
  auto both = client.acquire_all({{"a"}, {"b", Mode::shared()}});
  ASSERT_TRUE(both) << both.error().message();
  ASSERT_TRUE(both->release());
  EXPECT_TRUE(fails_with(client.acquire_all({{"a"}, {"c"}}, {.wait = 20ms}), Errc::kTimedOut));
  std::map<std::string, int> granted;
  for (const AcquireSeen& seen : notes_->acquires(3)) {
    if (seen.outcome == AcquireOutcome::kGranted) ++granted[seen.lock.name];
  }
  EXPECT_GE(granted["a"], 1);
  EXPECT_EQ(granted["b"], 1);
  EXPECT_EQ(granted["c"], 0);
  std::map<std::string, Mode::Kind> ended;
  for (const HoldSeen& seen : notes_->holds(2)) {
    EXPECT_EQ(seen.how, HoldEnd::kReleased);
    ended[seen.lock.name] = seen.lock.mode.kind();
  }
  EXPECT_EQ(ended["b"], Mode::Kind::kShared);
}

TEST_P(ObserverTest, AJobThatKeepsItsLockHasEndedItsHold) {
  const Client client = observed();
  auto job = client.job_lock("job", {.at_least_for = 60s}).try_acquire();
  ASSERT_TRUE(job && *job) << job.error().message();
  ASSERT_TRUE((*job)->release());
  EXPECT_EQ(notes_->holds(1)[0].how, HoldEnd::kDetached);
  EXPECT_FALSE(is_free(client.mutex("job")));
}

TEST_P(ObserverTest, WhatIsHeldWhenTheClientIsClosedIsLost) {
  std::optional<Client> client = observed();
  const Lease lease = take(client->mutex("orders"));
  ASSERT_TRUE(client->close());
  const HoldSeen hold = notes_->holds(1)[0];
  EXPECT_EQ(hold.how, HoldEnd::kClosed);
  EXPECT_TRUE(is_loss(hold.how));
}

TEST_P(ObserverTest, AllIsToldBeforeTheLastHandleIsGone) {
  { take(observed().mutex("orders")); }
  EXPECT_EQ(notes_->holds_so_far(), 1U);
}

// The data of a log event agree with its sentence.
TEST_P(ObserverTest, ALossIsLoggedAsData) {
  std::promise<LogEvent> logged;
  std::string sentence;
  ClientOptions options;
  options.log = [&](const std::string& line) {
    if (line.find("was lost") != line.npos) sentence = line;
  };
  options.log_event = [&](const LogEvent& event) {
    if (event.event == "lock_lost") logged.set_value(event);
  };
  const Client client = connect(std::move(options));
  const Lease lease =
      take(client.mutex("orders"), {.ttl = 150ms, .trace_id = "00-4b-01", .auto_renew = false});
  auto future = logged.get_future();
  ASSERT_EQ(future.wait_for(kNewsPatience), std::future_status::ready);
  const LogEvent event = future.get();
  EXPECT_EQ(event.event, "lock_lost");
  EXPECT_EQ(event.severity, LogSeverity::kError);
  EXPECT_EQ(event.lock, "orders");
  EXPECT_EQ(event.token, lease.token());
  EXPECT_EQ(event.trace_id, "00-4b-01");
  EXPECT_EQ(event.error, Errc::kLost);
  EXPECT_EQ(event.store, client.store_url());
  EXPECT_EQ(event.text, sentence);
  EXPECT_LT(std::chrono::system_clock::now() - event.time, kNewsPatience);
}

}  // namespace holdfast::testing
