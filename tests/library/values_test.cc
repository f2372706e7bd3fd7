// Primitives that keep a value beside a lock: latch, election, once, job.
#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "tests/library/fixture.h"

namespace holdfast::testing {
namespace {

class LatchTest : public LibraryTest {
 protected:
  Latch a() { return one().latch("start", 2); }
  Latch b() { return two().latch("start", 2); }
};

TEST_P(LatchTest, OpensWhenAllHaveCounted) {
  EXPECT_FALSE(a().try_wait().value());
  EXPECT_TRUE(fails_with(a().wait({.wait = 10ms}), Errc::kTimedOut));
  auto waiting = std::async(std::launch::async, [&] { return b().wait({.wait = kPatience}); });
  EXPECT_EQ(a().count_down().value(), 1U);
  EXPECT_FALSE(b().try_wait().value());
  EXPECT_EQ(b().count_down(5).value(), 0U);
  EXPECT_TRUE(waiting.get());
  EXPECT_TRUE(a().wait());
  EXPECT_EQ(a().count_down().value(), 0U);
}

TEST_P(LatchTest, ArrivesAndWaits) {
  auto other =
      std::async(std::launch::async, [&] { return b().arrive_and_wait(1, {.wait = kPatience}); });
  EXPECT_EQ(a().arrive_and_wait(1, {.wait = kPatience}).value(), 0U);
  EXPECT_EQ(other.get().value(), 0U);
}

// By looking alone it would learn of it 235 ms later: it looks after 5, 10, 20 ... 320 ms.
TEST_P(LatchTest, WhoWaitsLearnsOfTheOpeningAtOnce) {
  auto took = std::chrono::steady_clock::duration::max();
  for (int attempt = 0; attempt < 5 && took > 100ms; ++attempt) {  // This machine may stand still.
    const std::string name = "attempt " + std::to_string(attempt);
    auto waiting = std::async(std::launch::async, [&] {
      EXPECT_TRUE(one().latch(name, 1).wait({.wait = 60s}));
      return std::chrono::steady_clock::now();
    });
    std::this_thread::sleep_for(400ms);
    EXPECT_EQ(two().latch(name, 1).count_down().value(), 0U);
    const auto counted = std::chrono::steady_clock::now();
    took = waiting.get() - counted;
  }
  EXPECT_LE(took, 100ms);
}

TEST_P(LatchTest, AWaitIsCancelled) {
  std::stop_source stop;
  auto waiting =
      std::async(std::launch::async, [&] { return a().wait({.cancel = stop.get_token()}); });
  stop.request_stop();
  EXPECT_TRUE(fails_with(waiting.get(), Errc::kCancelled));
  EXPECT_TRUE(fails_with(a().wait({.cancel = stop.get_token()}), Errc::kCancelled));
}

TEST_P(LatchTest, EndsItsWaitsWhenTheClientIsClosed) {
  Client closing = connect();
  auto waiting = std::async(std::launch::async,
                            [latch = closing.latch("start", 2)]() mutable { return latch.wait(); });
  EXPECT_TRUE(closing.close());
  EXPECT_TRUE(fails_with(waiting.get(), Errc::kClosed));
}

TEST_P(LatchTest, CountsAllThatCountAtOnce) {
  Latch many = one().latch("many", 20);
  std::vector<std::future<Result<std::uint64_t>>> calls;
  for (int i = 0; i < 4; ++i) {
    calls.push_back(std::async(std::launch::async, [this]() -> Result<std::uint64_t> {
      Latch mine = two().latch("many", 20);
      for (int n = 0; n < 4; ++n) {
        if (auto left = mine.count_down(); !left) return left;
      }
      return mine.count_down();
    }));
  }
  for (auto& call : calls) EXPECT_TRUE(call.get());
  EXPECT_EQ(many.count().value(), 0U);
}

TEST_P(LatchTest, CanBeShutAgain) {
  EXPECT_EQ(a().count_down(2).value(), 0U);
  EXPECT_TRUE(a().reset(2));
  EXPECT_EQ(b().count().value(), 2U);
  Latch grown = a();
  EXPECT_TRUE(grown.reset(3));
  EXPECT_EQ(grown.count_down().value(), 2U);
  EXPECT_TRUE(fails_with(b().count_down(), Errc::kInvalidArgument));
}

TEST_P(LatchTest, ANameThatIsSomethingElseIsRefused) {
  EXPECT_TRUE(a().count_down());
  EXPECT_TRUE(fails_with(two().latch("start", 3).count_down(), Errc::kInvalidArgument));
  EXPECT_TRUE(fails_with(two().election("start").leader(), Errc::kInvalidArgument));
  EXPECT_TRUE(fails_with(two().latch("..", 3).count_down(), Errc::kInvalidArgument));
}

// The holder stays: whoever waited for it would wait as long.
TEST_P(LatchTest, ANameThatIsHeldForSomethingElseIsRefusedWhileItIsHeld) {
  const auto refused = [&] {
    return fails_with(a().count_down(), Errc::kInvalidArgument) &&
           fails_with(a().reset(1), Errc::kInvalidArgument) &&
           fails_with(a().arrive_and_wait(), Errc::kInvalidArgument);
  };
  {
    const Lease mutex = take(two().mutex("start"), {.ttl = 60s});
    EXPECT_TRUE(refused());
    EXPECT_TRUE(mutex.held());
  }
  {
    auto reader = two().shared_mutex("start").acquire_shared({.wait = 60s});
    ASSERT_TRUE(reader) << reader.error().message();
    EXPECT_TRUE(refused());
  }
  auto leader = two().election("start").campaign("v", {.wait = 60s});
  ASSERT_TRUE(leader) << leader.error().message();
  EXPECT_TRUE(refused());
  EXPECT_TRUE(leader->held());
}

HOLDFAST_ON_EVERY_STORE(LatchTest);

// Collects the events that an observer was told.
class Told {
 public:
  void operator()(const LeaderChange& change) {
    const std::lock_guard lock(mutex_);
    changes_.push_back(change);
    more_.notify_all();
  }
  // The next one; fails the test when none comes.
  LeaderChange next() {
    std::unique_lock lock(mutex_);
    if (!more_.wait_for(lock, kPatience, [&] { return read_ < changes_.size(); })) {
      ADD_FAILURE() << "nothing more was told";
      return {};
    }
    return changes_[read_++];
  }

 private:
  std::mutex mutex_;
  std::condition_variable more_;
  std::vector<LeaderChange> changes_;
  std::size_t read_ = 0;
};

class ElectionTest : public LibraryTest {
 protected:
  Election a() { return one().election("leader"); }
  Election b() { return two().election("leader"); }
};

// By looking alone it would learn of it 250 ms later.
TEST_P(ElectionTest, AnObserverLearnsOfAProclamationAtOnce) {
  struct Seen {
    std::mutex mutex;
    std::condition_variable changed;
    std::string value;
    bool await(const std::string& wanted, std::chrono::milliseconds time) {
      std::unique_lock lock(mutex);
      return changed.wait_for(lock, time, [&] { return value == wanted; });
    }
  };
  const auto seen = std::make_shared<Seen>();
  auto leading = one().election("at once").campaign("first");
  ASSERT_TRUE(leading);
  const auto watch = two().election("at once").observe([seen](const LeaderChange& change) {
    const std::lock_guard lock(seen->mutex);
    seen->value = change.now ? change.now->value : "nobody";
    seen->changed.notify_all();
  });
  ASSERT_TRUE(watch);
  std::string value = "first";
  bool at_once = false;
  for (int attempt = 0; attempt < 10 && !at_once; ++attempt) {  // This machine may stand still.
    ASSERT_TRUE(seen->await(value, 60s));                       // It has looked just now.
    value = std::to_string(attempt);
    EXPECT_TRUE(leading->proclaim(value));
    at_once = seen->await(value, 100ms);
  }
  EXPECT_TRUE(at_once);
}

TEST_P(ElectionTest, OneLeadsAndTheNextFollows) {
  EXPECT_FALSE(a().leader().value());
  Leadership first = a().campaign("10.0.0.1").value();
  EXPECT_FALSE(b().try_campaign("10.0.0.2").value());
  const auto seen = b().leader().value();
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->value, "10.0.0.1");
  EXPECT_EQ(seen->token, first.token());
  auto next =
      std::async(std::launch::async, [&] { return b().campaign("10.0.0.2", {.wait = kPatience}); });
  EXPECT_TRUE(first.resign());
  const auto second = next.get();
  ASSERT_TRUE(second) << second.error().message();
  EXPECT_GT(second->token(), first.token());
  EXPECT_EQ(a().leader().value()->value, "10.0.0.2");
  EXPECT_TRUE(fails_with(first.proclaim("late"), Errc::kLost));
}

TEST_P(ElectionTest, WhatALeaderProclaimedEndsWithItsLease) {
  { const Leadership leading = a().campaign("here").value(); }
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (b().leader().value() && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  EXPECT_FALSE(b().leader().value());
  const Lease plain = two().mutex("leader").acquire().value();
  const auto seen = a().leader().value();
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->value, "");
}

// The store knows of the lease for longer than the leader may count on it.
TEST_P(ElectionTest, ADeposedLeaderProclaimsNothing) {
  const AcquireOptions brief{.ttl = 30s, .max_hold = 200ms};
  Leadership leader = one().election("leader").campaign("before", brief).value();
  ASSERT_TRUE(fires(leader.lost()));
  EXPECT_TRUE(fails_with(leader.proclaim("after"), Errc::kLost));
  EXPECT_EQ(two().election("leader").leader().value()->value, "before");
}

TEST_P(ElectionTest, AnObserverIsToldEveryChangeInOrder) {
  Told told;
  const Watch watch = b().observe([&](const LeaderChange& change) { told(change); }).value();
  EXPECT_FALSE(told.next().now);
  Leadership leading = a().campaign("one").value();
  for (const char* value : {"two", "three", "four"}) EXPECT_TRUE(leading.proclaim(value));
  for (const char* value : {"one", "two", "three", "four"}) {
    LeaderChange change = told.next();
    ASSERT_TRUE(change.now);
    // It may be seen to lead just before it has proclaimed anything.
    if (change.now->value.empty() && value == std::string_view("one")) change = told.next();
    ASSERT_TRUE(change.now);
    EXPECT_EQ(change.now->value, value);
    EXPECT_EQ(change.now->token, leading.token());
    EXPECT_EQ(change.missed, 0U);
  }
  EXPECT_TRUE(leading.resign());
  EXPECT_FALSE(told.next().now);
}

TEST_P(ElectionTest, AnObserverIsToldHowManyChangesItMissed) {
  Leadership leading = a().campaign("0").value();
  Told told;
  std::promise<void> hold_up;
  auto go_on = hold_up.get_future().share();
  const Watch watch = b().observe([&](const LeaderChange& change) { told(change); }).value();
  EXPECT_EQ(told.next().now->value, "0");
  for (int i = 1; i <= 40; ++i) {
    ASSERT_TRUE(leading.proclaim(std::string(900, 'x') + std::to_string(i)));
  }
  std::uint64_t counted = 0;
  while (counted < 40 && !HasFailure()) counted += 1 + told.next().missed;
  EXPECT_EQ(counted, 40U);
}

TEST_P(ElectionTest, AValueHasItsLimit) {
  EXPECT_TRUE(fails_with(a().campaign(std::string(1025, 'x')), Errc::kInvalidArgument));
  const std::string odd("a:b 7\n\0c", 8);
  Leadership leading = a().campaign(odd).value();
  EXPECT_EQ(b().leader().value()->value, odd);
}

TEST_P(ElectionTest, AnEndedWatchIsSilent) {
  Told told;
  {
    const Watch watch = b().observe([&](const LeaderChange& change) { told(change); }).value();
    EXPECT_FALSE(told.next().now);
  }
  const Leadership leading = a().campaign("late").value();
  EXPECT_TRUE(two().close());
}

HOLDFAST_ON_EVERY_STORE(ElectionTest);

class OnceTest : public LibraryTest {
 protected:
  Once a() { return one().once("order-42", 10s); }
  Once b() { return two().once("order-42", 10s); }
};

TEST_P(OnceTest, TheFirstRunsAndTheOthersGetItsOutcome) {
  OnceTurn first = a().begin().value();
  ASSERT_TRUE(first.first());
  EXPECT_TRUE(fails_with(b().begin({.wait = 10ms}), Errc::kTimedOut));
  auto second = std::async(std::launch::async, [&] { return b().begin({.wait = kPatience}); });
  EXPECT_TRUE(first.complete("charged 9.99"));
  const auto got = second.get();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_FALSE(got->first());
  EXPECT_EQ(got->outcome(), "charged 9.99");
  EXPECT_EQ(a().begin()->outcome(), "charged 9.99");
}

TEST_P(OnceTest, ItsOutcomeCanBeLookedAtWithoutATurn) {
  EXPECT_FALSE(b().outcome().value());
  OnceTurn first = a().begin().value();
  EXPECT_FALSE(b().outcome().value()) << "it runs";
  ASSERT_TRUE(first.complete("charged 9.99"));
  EXPECT_EQ(b().outcome().value(), "charged 9.99");
  const Lease mutex = one().mutex("plain").acquire().value();
  EXPECT_FALSE(two().once("plain").outcome().value()) << "held, but no Once";
}

TEST_P(OnceTest, RunsTheWorkOnce) {
  int runs = 0;
  const auto work = [&](Lease& lease) -> Result<std::string> {
    EXPECT_TRUE(lease.held());
    ++runs;
    return std::string("done");
  };
  EXPECT_EQ(a().run(work).value(), "done");
  EXPECT_EQ(b().run(work).value(), "done");
  EXPECT_EQ(runs, 1);
}

TEST_P(OnceTest, AfterAFailureTheNextOneIsFirst) {
  EXPECT_TRUE(fails_with(
      a().run([](Lease&) -> Result<std::string> { return Error(Errc::kUnavailable, "no bank"); }),
      Errc::kUnavailable));
  EXPECT_TRUE(b().begin({.wait = kPatience})->first());
}

TEST_P(OnceTest, ATurnThatWasMovedElsewhereIsCompletedThere) {
  OnceTurn first = a().begin().value();
  OnceTurn moved = std::move(first);
  // NOLINTNEXTLINE(bugprone-use-after-move)
  EXPECT_TRUE(fails_with(first.complete("by the old one"), Errc::kInvalidArgument));
  EXPECT_TRUE(moved.complete("by the new one"));
  EXPECT_EQ(b().begin()->outcome(), "by the new one");
}

TEST_P(OnceTest, AnOutcomeIsNotReplacedByItsFirstCaller) {
  OnceTurn first = a().begin().value();
  EXPECT_TRUE(first.complete("first"));
  EXPECT_TRUE(fails_with(first.complete("second"), Errc::kLost));
  EXPECT_EQ(b().begin()->outcome(), "first");
}

TEST_P(OnceTest, ATurnThatIsOverCompletesNothing) {
  OnceTurn first = a().begin({.ttl = 30s, .max_hold = 200ms}).value();
  ASSERT_TRUE(fires(first.lease().lost()));
  EXPECT_TRUE(fails_with(first.complete("late"), Errc::kLost));
  EXPECT_TRUE(fails_with(b().begin({.wait = 10ms}), Errc::kTimedOut));
}

TEST_P(OnceTest, AfterACrashTheNextOneIsFirst) {
  OnceTurn crashed = a().begin({.ttl = shortest_ttl(one(), 300ms), .auto_renew = false}).value();
  crashed.lease().detach();
  const auto next = b().begin({.wait = kPatience});
  ASSERT_TRUE(next);
  EXPECT_TRUE(next->first());
  EXPECT_GT(const_cast<OnceTurn&>(*next).lease().token(), crashed.lease().token());
}

TEST_P(OnceTest, ItsOutcomeIsForgottenAfterTheRetentionTime) {
  Once brief = one().once("brief", 300ms);
  OnceTurn first = brief.begin({.ttl = shortest_ttl(one(), 300ms)}).value();
  EXPECT_TRUE(first.complete("old"));
  EXPECT_EQ(brief.begin()->outcome(), "old");
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!brief.begin()->first() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(10ms);
  }
  OnceTurn again = brief.begin({.wait = kPatience}).value();
  EXPECT_TRUE(again.first());
}

TEST_P(OnceTest, ARetentionTimeIsNotStretchedToTheLease) {
  Once brief = one().once("brief", 300ms);
  OnceTurn first = brief.begin({.ttl = 60s}).value();
  EXPECT_TRUE(first.complete("old"));
  const auto until = std::chrono::steady_clock::now() + 30s;
  bool anew = false;
  while (!anew && std::chrono::steady_clock::now() < until) {
    const auto next = two().once("brief", 300ms).begin({.wait = 30s});
    anew = next && next->first();
    if (!anew) std::this_thread::sleep_for(10ms);
  }
  EXPECT_TRUE(anew);
}

TEST_P(OnceTest, RefusesWhatCannotBe) {
  EXPECT_TRUE(fails_with(one().once("k", 25h).begin(), Errc::kInvalidArgument));
  OnceTurn first = a().begin().value();
  EXPECT_TRUE(fails_with(first.complete(std::string(3073, 'x')), Errc::kInvalidArgument));
  EXPECT_TRUE(first.complete(std::string(3072, 'x')));
  OnceTurn second = b().begin().value();
  EXPECT_TRUE(fails_with(second.complete("mine"), Errc::kInvalidArgument));
}

HOLDFAST_ON_EVERY_STORE(OnceTest);

class JobLockTest : public LibraryTest {};

TEST_P(JobLockTest, OneRunsAndTheOthersSkip) {
  JobLock nightly = one().job_lock("nightly");
  std::optional<JobLease> job = nightly.try_acquire().value();
  ASSERT_TRUE(job);
  EXPECT_FALSE(two().job_lock("nightly").try_acquire().value());
  EXPECT_TRUE(job->release());
  EXPECT_TRUE(two().job_lock("nightly").try_acquire().value());
}

TEST_P(JobLockTest, AJobThatEndsEarlyKeepsTheOthersOut) {
  const JobTimes times{.at_least_for = 1500ms};
  JobLock here = one().job_lock("nightly", times);
  JobLock there = two().job_lock("nightly", times);
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_TRUE(here.try_acquire({.ttl = shortest_ttl(one(), 200ms)}).value()->release());
  while (!there.try_acquire().value()) {
    ASSERT_LT(std::chrono::steady_clock::now() - begun, kPatience);
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_GE(std::chrono::steady_clock::now() - begun, 1500ms);
}

TEST_P(JobLockTest, AJobThatHasEndedIsFreeWhenItsTimeIsOverNotItsLease) {
  const JobTimes times{.at_least_for = 1500ms};
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_TRUE(one().job_lock("nightly", times).try_acquire({.ttl = 120s}).value()->release());
  while (!two().job_lock("nightly", times).try_acquire().value()) {
    ASSERT_LT(std::chrono::steady_clock::now() - begun, 60s);
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_GE(std::chrono::steady_clock::now() - begun, 1500ms);
}

TEST_P(JobLockTest, SoDoesItsDestructor) {
  const JobTimes times{.at_least_for = 30s};
  { const auto job = one().job_lock("nightly", times).try_acquire({.ttl = 200ms}).value(); }
  EXPECT_TRUE(one().close());
  EXPECT_FALSE(two().job_lock("nightly", times).try_acquire().value());
}

TEST_P(JobLockTest, ALeaseThatWasWaitedForBecomesAJobs) {
  if (one().guarantees().ends_with_client) {
    JobLease bound(one().acquire("nightly", Mode::exclusive()).value(), {});
    EXPECT_TRUE(bound.release());
    GTEST_SKIP() << "skipped by capability: leases end with their client";
  }
  Lease lease = one().acquire("nightly", Mode::exclusive(), {.ttl = 120s}).value();
  const auto until = lease.deadline_boottime() - lease.remaining() + 20s;
  JobLease job(std::move(lease), until);
  ASSERT_TRUE(job.release());
  EXPECT_FALSE(job.held());
  const auto info = two().inspect("nightly").value();
  ASSERT_TRUE(info && !info->holders.empty());
  EXPECT_LE(info->holders.at(0).time_left, 21s);
  EXPECT_GT(info->holders.at(0).time_left, 5s);
}

TEST_P(JobLockTest, SoDoesAMachineThatDies) {
  const JobTimes times{.at_least_for = 20s};
  const auto job = one().job_lock("nightly", times).try_acquire({.ttl = 200ms}).value();
  const auto info = two().inspect("nightly").value();
  ASSERT_TRUE(job && info);
  EXPECT_GT(info->holders.at(0).time_left, 15s);
}

TEST_P(JobLockTest, AJobThatTakesTooLongLosesItsLock) {
  JobLock bounded = one().job_lock("nightly", {.at_most_for = 200ms});
  const auto job = bounded.try_acquire().value();
  EXPECT_TRUE(fires(job->lost()));
  EXPECT_FALSE(job->held());
}

TEST_P(JobLockTest, RefusesWhatCannotBe) {
  EXPECT_TRUE(fails_with(one().job_lock("j", {.at_least_for = 2s, .at_most_for = 1s}).try_acquire(),
                         Errc::kInvalidArgument));
  EXPECT_TRUE(
      fails_with(one().job_lock("j", {.at_least_for = 25h}).try_acquire(), Errc::kInvalidArgument));
}

TEST_P(JobLockTest, WhereLeasesEndWithTheirClientNoneIsKeptForAWhile) {
  if (!one().guarantees().ends_with_client) {
    GTEST_SKIP() << "skipped by capability: leases go on without their client";
  }
  EXPECT_TRUE(
      fails_with(one().job_lock("j", {.at_least_for = 2s}).try_acquire(), Errc::kUnsupported));
  const auto job = one().job_lock("j", {.at_most_for = 20s}).try_acquire();
  ASSERT_TRUE(job) << job.error().message();
  EXPECT_TRUE(*job);
}

HOLDFAST_ON_EVERY_STORE(JobLockTest);

}  // namespace
}  // namespace holdfast::testing
