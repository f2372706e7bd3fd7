// The driver with a store that misbehaves on purpose: hangs, fails, forgets. Other tests cover real
// stores (tests/conformance, tests/library, tests/faults).
#include "src/session/core.h"

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "src/port/test_unasked_store.h"
#include "src/session/test_deaf_reader.h"

namespace holdfast::session {
namespace {

using namespace std::chrono_literals;

// Busy machines stand still for seconds.
constexpr auto kPatience = 60s;

// The tests' script for the store; outlives it.
struct Script {
  std::mutex mutex;
  std::condition_variable changed;
  bool hang_renewals = false;
  bool fail_renewals = false;
  std::optional<Errc> fail_keeps;
  bool forget = false;  // Renewals find nothing.
  bool hang_releases = false;
  bool queues = false;              // A wait's first request, which the caller's thread makes.
  bool keeps_waiting = false;       // A heartbeat: who was not pushed a grant keeps waiting.
  bool pushes_the_grant = false;    // Before that is answered.
  bool loses_pushes_first = false;  // While it is asked.
  std::function<void()> lose_pushes;
  std::function<void()> begin_pushes;
  port::PushReader* push_reader = nullptr;
  std::vector<port::AcquisitionId> waiting;
  std::vector<port::AcquisitionId> granted;  // Their grants were pushed.
  std::function<void(port::AcquisitionId)> push_grant;
  int renewals = 0;
  Duration renewed_for{};  // The last request's.
  std::vector<port::KeepRequest> keeps;
  int cancels = 0;
  std::vector<std::uint64_t> asked;  // The numbers of the acquisitions.
  std::vector<std::uint64_t> released;
  bool store_gone = false;
  std::vector<port::Done<port::EndStatus>> hanging;
};
Script* script = nullptr;

// Grants everything at once, and remembers the lease it was asked for.
class ScriptedStore final : public port::UnaskedStore {
 public:
  ScriptedStore(port::Loop& loop, port::Listener& listener) : loop_(loop), listener_(listener) {
    script->lose_pushes = [&loop, &listener] {
      loop.post([&listener] { listener.on_pushes_missed(); });
    };
    script->begin_pushes = [&loop, &listener] {
      loop.post([&listener] { listener.on_pushes_begin(); });
    };
    script->push_grant = [&loop, &listener](port::AcquisitionId id) {
      {
        const std::lock_guard lock(script->mutex);
        script->granted.push_back(id);
      }
      loop.post([&listener, id] {
        listener.on_push({port::Push::Kind::kGranted, id, held(0, 30s)});
      });
    };
  }
  ~ScriptedStore() override {
    const std::lock_guard lock(script->mutex);
    script->store_gone = true;
    script->changed.notify_all();
  }

  void acquire(port::AcquireRequest request, port::Done<port::AcquisitionState> done) override {
    const std::lock_guard lock(script->mutex);
    script->asked.push_back(request.issue);
    if (script->loses_pushes_first) script->lose_pushes();
    loop_.post([done, lease = request.ttl] { done(held(0, lease)); });
  }
  std::optional<Result<port::AcquisitionState>> acquire_inline(
      const port::AcquireRequest& request) override {
    if (!script->queues) return std::nullopt;
    if (script->pushes_the_grant) {
      std::promise<void> pushed;
      loop_.post([&] {
        listener_.on_push({port::Push::Kind::kGranted, request.id, held(0, request.waiter_ttl)});
        pushed.set_value();
      });
      pushed.get_future().wait();
    }
    {
      const std::lock_guard lock(script->mutex);
      script->waiting.push_back(request.id);
      script->changed.notify_all();
    }
    return waits(request.waiter_ttl, 0);
  }
  void renew(std::vector<port::RenewItem> items, base::BootInstant,
             port::Done<std::vector<Result<port::AcquisitionState>>> done) override {
    std::vector<Result<port::AcquisitionState>> results;
    {
      std::unique_lock lock(script->mutex);
      ++script->renewals;
      script->renewed_for = items.back().ttl;
      script->changed.notify_all();
      script->changed.wait(lock, [] { return !script->hang_renewals; });
      for (const port::RenewItem& item : items) {
        if (script->keeps_waiting && item.token == port::Token{} &&
            std::ranges::find(script->granted, item.id) == script->granted.end()) {
          results.emplace_back(waits(item.waiter_ttl, item.seq));
        } else if (script->fail_renewals) {
          results.emplace_back(Error(Errc::kUnavailable, "scripted: no answer"));
        } else if (script->forget) {
          results.emplace_back(
              port::AcquisitionState{port::AcquisitionStatus::kGone, {}, 0, {}, 0, {}});
        } else {
          results.emplace_back(held(item.seq, item.ttl));
        }
      }
    }
    loop_.post([done, results] { done(results); });
  }
  void release(port::AcquisitionRequest request, port::Done<port::EndStatus> done) override {
    const std::lock_guard lock(script->mutex);
    script->released.push_back(request.issue);
    if (script->hang_releases) {
      script->hanging.push_back(std::move(done));
    } else {
      loop_.post([done] { done(port::EndStatus::kReleased); });
    }
  }
  void keep(port::KeepRequest request, port::Done<bool> done) override {
    const std::lock_guard lock(script->mutex);
    script->keeps.push_back(std::move(request));
    if (script->fail_keeps) {
      loop_.post([done, why = *script->fail_keeps] { done(Error(why, "scripted")); });
    } else {
      loop_.post([done] { done(true); });
    }
  }
  void cancel(port::AcquisitionRequest, port::Done<port::EndStatus> done) override {
    const std::lock_guard lock(script->mutex);
    ++script->cancels;
    loop_.post([done] { done(port::EndStatus::kCancelled); });
  }
  void close(base::BootInstant) override {
    const std::lock_guard lock(script->mutex);
    script->hang_renewals = false;
    script->changed.notify_all();
    for (auto& done : script->hanging) {
      loop_.post([done] { done(Error(Errc::kClosed, "scripted")); });
    }
  }
  port::PushReader* push_reader() override { return script->push_reader; }

 private:
  static port::AcquisitionState held(std::uint64_t seq, Duration lease) {
    return {port::AcquisitionStatus::kHeld, {0, 7}, seq, lease, 0, {}};
  }
  static port::AcquisitionState waits(Duration lease, std::uint64_t seq) {
    return {port::AcquisitionStatus::kWaiting, {}, seq, lease, 0, {}};
  }
  port::Loop& loop_;
  port::Listener& listener_;
};

// NOLINTNEXTLINE(performance-unnecessary-value-param): the signature is the registry's.
Result<std::unique_ptr<port::Store>> make_scripted(port::StoreUrl, const port::StoreContext& how) {
  return std::unique_ptr<port::Store>(std::make_unique<ScriptedStore>(*how.loop, *how.listener));
}

class CoreTest : public ::testing::Test {
 protected:
  CoreTest() {
    script = &script_;
    CoreOptions options{"scripted:", {}, {}};
    options.client.request_timeout = 300ms;
    core_ = Core::make(&make_scripted, {}, options).value();
  }
  ~CoreTest() override {
    acquisition_ = nullptr;
    core_ = nullptr;
    // It may be closing on a thread of its own.
    std::unique_lock lock(script_.mutex);
    EXPECT_TRUE(script_.changed.wait_for(lock, kPatience, [&] { return script_.store_gone; }));
  }

  void acquire(std::chrono::milliseconds ttl) {
    AcquireOptions options;
    options.ttl = ttl;
    acquisition_ = core_->acquire("name", Mode::exclusive(), options, /*may_wait=*/true).value();
    ASSERT_NE(acquisition_, nullptr);
  }
  // Once in a few times: this machine may be slow, too.
  bool is_faster_than_the_heartbeat(const AcquireOptions& options) {
    for (int i = 0; i < 10; ++i) {
      const auto begin = base::BootClock::now();
      acquisition_ = core_->acquire("name", Mode::exclusive(), options, /*may_wait=*/true).value();
      const bool fast = base::BootClock::now() - begin < 900ms;
      let_go();
      if (fast) return true;
    }
    return false;
  }
  void set(bool Script::*flag, bool value) {
    const std::lock_guard lock(script_.mutex);
    script_.*flag = value;
    script_.changed.notify_all();
  }
  int renewals() {
    const std::lock_guard lock(script_.mutex);
    return script_.renewals;
  }
  void await_renewals(int count) {
    std::unique_lock lock(script_.mutex);
    ASSERT_TRUE(
        script_.changed.wait_for(lock, kPatience, [&] { return script_.renewals >= count; }));
  }
  // So many more; false: the lease was lost first.
  bool held_for_renewals(int count) {
    bool lost = false;
    const std::stop_callback callback(Core::lost_token(*acquisition_), [&] {
      const std::lock_guard lock(script_.mutex);
      lost = true;
      script_.changed.notify_all();
    });
    std::unique_lock lock(script_.mutex);
    const int wanted = script_.renewals + count;
    EXPECT_TRUE(script_.changed.wait_for(lock, kPatience,
                                         [&] { return lost || script_.renewals >= wanted; }));
    return !lost;
  }
  // A machine that stands still for a whole lease loses it by right, which proves nothing: then
  // the same is tried with a longer one. `attempt`: false when its lease was lost.
  template <typename Attempt>
  void with_longer_leases(Attempt attempt) {
    for (const auto ttl : {300ms, 2000ms, 10'000ms}) {
      if (attempt(ttl)) return;
    }
    FAIL() << "leases of ten seconds are lost, too";
  }
  // When lost() fired, counted on boot time.
  base::BootInstant await_loss() {
    std::mutex mutex;
    std::condition_variable told;
    std::optional<base::BootInstant> at;
    const std::stop_callback callback(Core::lost_token(*acquisition_), [&] {
      const std::lock_guard lock(mutex);
      at = base::BootClock::now();
      told.notify_all();
    });
    std::unique_lock lock(mutex);
    EXPECT_TRUE(told.wait_for(lock, kPatience, [&] { return at.has_value(); }));
    return at.value_or(base::BootInstant::max());
  }
  base::BootInstant deadline() const {
    return base::BootInstant(std::chrono::nanoseconds(acquisition_->deadline_ns));
  }
  Errc loss() const {
    const auto loss = acquisition_->why_lost();
    return loss ? loss->code() : Errc{};
  }
  Result<void> keep(std::chrono::milliseconds time, std::optional<std::string> value) {
    std::promise<Result<void>> kept;
    core_->leave_to_store(acquisition_, time, std::move(value),
                          [&](const Result<void>& result) { kept.set_value(result); });
    return kept.get_future().get();
  }
  void let_go() { std::exchange(acquisition_->core, nullptr)->release_later(acquisition_); }

  Script script_;
  std::shared_ptr<Core> core_;
  Core::AcquisitionPtr acquisition_;
};

TEST_F(CoreTest, ALeaseIsRenewedBeforeItEnds) {
  with_longer_leases([&](std::chrono::milliseconds ttl) {
    acquire(ttl);
    const bool held = held_for_renewals(5) && acquisition_->state == LeaseState::kHeld;
    let_go();
    return held;
  });
}

TEST_F(CoreTest, AFailedRenewalIsLoggedWithItsLock) {
  struct Logged {
    std::promise<LogEvent> first;
    std::once_flag once;
  };
  const auto logged = std::make_shared<Logged>();  // Renewals go on failing until the core is gone.
  CoreOptions options{"scripted:", {}, {}};
  options.client.log_event = [logged](const LogEvent& event) {
    std::call_once(logged->once, [&] { logged->first.set_value(event); });
  };
  core_ = nullptr;
  set(&Script::store_gone, false);
  core_ = Core::make(&make_scripted, {}, options).value();
  set(&Script::fail_renewals, true);
  acquire(3000ms);
  auto future = logged->first.get_future();
  ASSERT_EQ(future.wait_for(kPatience), std::future_status::ready);
  const LogEvent event = future.get();
  EXPECT_EQ(event.event, "renewal_failed");
  EXPECT_TRUE(
      event.text.starts_with("lock 'name': renewal failed, will try again (in doubt): scripted: "))
      << event.text;
  EXPECT_EQ(event.severity, LogSeverity::kWarning);
  EXPECT_EQ(event.lock, "name");
  EXPECT_EQ(event.token, (Token{0, 7}));
  EXPECT_EQ(event.error, Errc::kUnavailable);
  EXPECT_EQ(event.store, "scripted:");
  let_go();
}

TEST_F(CoreTest, AStoreThatHangsDoesNotPutTheLossOff) {
  with_longer_leases([&](std::chrono::milliseconds ttl) {
    set(&Script::hang_renewals, true);
    acquire(ttl);
    const bool hanging = held_for_renewals(1);
    if (hanging) {
      // The timer never fires early; how late depends on the machine. The store hangs all the time.
      EXPECT_GE(await_loss(), deadline());
      EXPECT_EQ(acquisition_->state, LeaseState::kLost);
      EXPECT_EQ(loss(), Errc::kLost);
    }
    set(&Script::hang_renewals, false);
    let_go();
    return hanging;
  });
}

TEST_F(CoreTest, FailedRenewalsAreDoubtUntilTheDeadlineAndTriedAgain) {
  with_longer_leases([&](std::chrono::milliseconds ttl) {
    set(&Script::fail_renewals, true);
    acquire(2 * ttl);
    bool held = held_for_renewals(2);
    const LeaseState failing = acquisition_->state;
    set(&Script::fail_renewals, false);
    held = held && held_for_renewals(2);
    const LeaseState answered = acquisition_->state;
    let_go();
    if (!held || failing == LeaseState::kLost || answered == LeaseState::kLost) return false;
    EXPECT_EQ(failing, LeaseState::kInDoubt);
    EXPECT_EQ(answered, LeaseState::kHeld);
    return true;
  });
}

TEST_F(CoreTest, ALeaseThatTheStoreForgotIsLostWithTheNextRenewal) {
  set(&Script::forget, true);
  acquire(30s);
  core_->doubt(acquisition_);
  EXPECT_LT(await_loss(), deadline() - 10s);
  EXPECT_EQ(core_->release(acquisition_).error().code(), Errc::kLost);
  let_go();
}

TEST_F(CoreTest, ABlockedCallbackHoldsUpNeitherRenewalsNorDeadlines) {
  with_longer_leases([&](std::chrono::milliseconds ttl) {
    set(&Script::forget, false);
    auto blocked = core_
                       ->acquire("other", Mode::exclusive(), {.ttl = 100ms, .auto_renew = false},
                                 /*may_wait=*/true)
                       .value();
    std::promise<void> inside;
    std::promise<void> let_on;
    auto callback = std::make_unique<std::stop_callback<std::function<void()>>>(
        Core::lost_token(*blocked), [&] {
          inside.set_value();
          let_on.get_future().wait();
        });
    EXPECT_EQ(inside.get_future().wait_for(kPatience), std::future_status::ready);
    acquire(ttl);
    // The notifier is busy, so that the loss would not be told.
    const int before = renewals();
    while (renewals() < before + 3 && acquisition_->state != LeaseState::kLost) {
      std::this_thread::yield();
    }
    const bool held = acquisition_->state == LeaseState::kHeld;
    set(&Script::forget, true);
    while (acquisition_->state != LeaseState::kLost) std::this_thread::yield();
    let_on.set_value();
    callback = nullptr;
    std::exchange(blocked->core, nullptr)->release_later(blocked);
    let_go();
    return held;
  });
}

TEST_F(CoreTest, ALeaseThatGoesDoesNotWaitForTheStore) {
  acquire(30s);
  set(&Script::hang_releases, true);
  let_go();  // Would hang for ever.
  const auto closed = core_->close(50ms);
  ASSERT_FALSE(closed.has_value());
  EXPECT_EQ(closed.error().code(), Errc::kTimedOut);
  EXPECT_NE(closed.error().message().find("1 release"), std::string::npos);
}

TEST_F(CoreTest, CloseTellsTheHoldersAndEndsEveryCall) {
  acquire(30s);
  EXPECT_TRUE(core_->close(kPatience).has_value());
  EXPECT_EQ(acquisition_->state, LeaseState::kLost);
  EXPECT_EQ(loss(), Errc::kClosed);
  const auto after = core_->acquire("n", Mode::exclusive(), {}, /*may_wait=*/true);
  EXPECT_EQ(after.error().code(), Errc::kClosed);
  EXPECT_EQ(core_->administration().inspect("n").error().code(), Errc::kClosed);
  EXPECT_TRUE(core_->close(kPatience).has_value());
  let_go();
}

TEST_F(CoreTest, ASecondCloseTellsTheOutcomeOfTheFirst) {
  acquire(30s);
  set(&Script::hang_releases, true);
  let_go();
  std::thread first([&] {
    const auto closed = core_->close(500ms);
    ASSERT_FALSE(closed.has_value());
    EXPECT_EQ(closed.error().code(), Errc::kTimedOut);
  });
  while (core_->acquire("", Mode::exclusive(), {}, true).error().code() != Errc::kClosed) {
    std::this_thread::yield();
  }
  const auto impatient = core_->close(1ms);
  ASSERT_FALSE(impatient.has_value()) << "while the first one flushed";
  EXPECT_EQ(impatient.error().code(), Errc::kTimedOut);
  const auto second = core_->close(kPatience);
  ASSERT_FALSE(second.has_value());
  EXPECT_NE(second.error().message().find("1 release"), std::string::npos);
  first.join();
  EXPECT_FALSE(core_->close(kPatience).has_value());
}

TEST_F(CoreTest, AnAdoptionBesideCloseLeavesNoLeaseHeld) {
  set(&Script::hang_renewals, true);
  std::promise<Result<Core::AcquisitionPtr>> answer;
  AcquireOptions options;
  options.ttl = 30s;
  core_->adopt("name", Mode::exclusive(), {1, 2}, options,
               [&](Result<Core::AcquisitionPtr> adopted) { answer.set_value(std::move(adopted)); });
  await_renewals(1);
  std::thread closing([&] { EXPECT_TRUE(core_->close(kPatience).has_value()); });
  // A bad name is refused for what it is as long as the client is open.
  while (core_->acquire("", Mode::exclusive(), {}, true).error().code() != Errc::kClosed) {
    std::this_thread::yield();
  }
  set(&Script::hang_renewals, false);
  closing.join();
  const Result<Core::AcquisitionPtr> adopted = answer.get_future().get();
  if (adopted) acquisition_ = *adopted;
  ASSERT_FALSE(adopted.has_value()) << "held: " << (acquisition_->state == LeaseState::kHeld);
  EXPECT_EQ(adopted.error().code(), Errc::kClosed);
  const std::lock_guard lock(script_.mutex);
  EXPECT_EQ(script_.released.size(), 1U);
}

TEST_F(CoreTest, ALeaseThatCouldNotBeKeptIsRenewedForNoLongerThanBefore) {
  acquire(30s);
  script_.fail_keeps = Errc::kUnavailable;
  EXPECT_EQ(keep(24h, std::nullopt).error().code(), Errc::kUnavailable);
  ASSERT_TRUE(core_->renew(acquisition_));
  EXPECT_EQ(acquisition_->state, LeaseState::kHeld);
  let_go();
  ASSERT_TRUE(core_->close(kPatience));
  const std::lock_guard lock(script_.mutex);
  EXPECT_EQ(script_.renewed_for, Duration(30s));
  EXPECT_EQ(script_.released.size(), 1U);
}

// A crash anywhere leaves both or neither.
TEST_F(CoreTest, ALeaseIsKeptAndItsValueSetByOneRequest) {
  acquire(30s);
  ASSERT_TRUE(keep(24h, "the outcome"));
  EXPECT_EQ(keep(24h, "another").error().code(), Errc::kLost);
  let_go();
  ASSERT_TRUE(core_->close(kPatience));
  const std::lock_guard lock(script_.mutex);
  ASSERT_EQ(script_.keeps.size(), 1U);
  EXPECT_EQ(script_.keeps[0].value, "the outcome");
  EXPECT_EQ(script_.keeps[0].ttl, Duration(24h));
  EXPECT_EQ(script_.keeps[0].seq, 1U);
  EXPECT_TRUE(script_.released.empty());
}

// Somebody may have been given the value that was set with it.
TEST_F(CoreTest, WhatMayHaveBeenKeptIsNotReleased) {
  acquire(30s);
  script_.fail_keeps = Errc::kOutcomeUnknown;
  EXPECT_EQ(keep(24h, "the outcome").error().code(), Errc::kOutcomeUnknown);
  EXPECT_EQ(acquisition_->state, LeaseState::kHeld);
  let_go();
  ASSERT_TRUE(core_->close(kPatience));
  const std::lock_guard lock(script_.mutex);
  EXPECT_TRUE(script_.released.empty());
}

TEST_F(CoreTest, MaxHoldEndsTheLease) {
  AcquireOptions options;
  options.ttl = 30s;
  options.max_hold = 100ms;
  acquisition_ = core_->acquire("name", Mode::exclusive(), options, /*may_wait=*/true).value();
  await_loss();
  EXPECT_NE(acquisition_->why_lost()->message().find("max_hold"), std::string::npos);
  let_go();
}

TEST_F(CoreTest, TheLastHandleMayGoInsideACallback) {
  acquire(100ms);
  set(&Script::forget, true);
  std::mutex mutex;
  std::condition_variable changed;
  bool gone = false;
  auto callback = std::make_unique<std::stop_callback<std::function<void()>>>(
      Core::lost_token(*acquisition_), [&] {
        // The notifier's own thread lets go of the core that would join it.
        let_go();
        core_ = nullptr;
        const std::lock_guard lock(mutex);
        gone = true;
        changed.notify_all();
      });
  std::unique_lock lock(mutex);
  EXPECT_TRUE(changed.wait_for(lock, kPatience, [&] { return gone; }));
  lock.unlock();
  callback = nullptr;
}

TEST_F(CoreTest, BadRequestsAreRefusedBeforeTheStoreIsAsked) {
  const auto code = [&](std::string name, const Mode& mode, AcquireOptions options) {
    return core_->acquire(std::move(name), mode, std::move(options), true).error().code();
  };
  EXPECT_EQ(code("", Mode::exclusive(), {}), Errc::kInvalidArgument);
  EXPECT_EQ(code("a\nb", Mode::exclusive(), {}), Errc::kInvalidArgument);
  EXPECT_EQ(code("a", Mode::exclusive(), {.ttl = 99ms}), Errc::kInvalidArgument);
  EXPECT_EQ(code("a", Mode::exclusive(), {.ttl = 25h}), Errc::kInvalidArgument);
  EXPECT_EQ(code("a", Mode::exclusive(), {.wait = -1ms}), Errc::kInvalidArgument);
  EXPECT_EQ(code("a", Mode::exclusive(), {.max_hold = -1ms}), Errc::kInvalidArgument);
  EXPECT_EQ(code("a", Mode::permits(0, 3), {}), Errc::kInvalidArgument);
  EXPECT_EQ(code("a", Mode::permits(4, 3), {}), Errc::kInvalidArgument);
  for (const std::string& trace : {std::string(129, 'x'), std::string("a b"), std::string("a\n"),
                                   std::string("\x7f"), std::string("\xc3\xbc")}) {
    EXPECT_EQ(code("a", Mode::exclusive(), {.trace_id = trace}), Errc::kInvalidArgument) << trace;
  }
  EXPECT_EQ(code("a", Mode::exclusive(), {.reason = std::string(1025, 'x')}),
            Errc::kInvalidArgument);
}

TEST_F(CoreTest, EveryAcquisitionGetsALargerNumberWhichItsReleaseCarries) {
  for (int round = 0; round < 3; ++round) {
    acquire(30s);
    EXPECT_TRUE(core_->release(acquisition_));
  }
  const std::lock_guard lock(script_.mutex);
  ASSERT_EQ(script_.asked.size(), 3U);
  EXPECT_LT(0U, script_.asked[0]);
  EXPECT_LT(script_.asked[0], script_.asked[1]);
  EXPECT_LT(script_.asked[1], script_.asked[2]);
  EXPECT_EQ(script_.released, script_.asked);
}

TEST_F(CoreTest, AGrantThatOvertakesTheAnswerToItsRequestIsFoundAtOnce) {
  script_.queues = script_.pushes_the_grant = true;
  EXPECT_TRUE(is_faster_than_the_heartbeat({}));
}

// One of them may have told that the lease was broken.
TEST_F(CoreTest, WhoHoldsAsksWhenPushesWereMissedOrBeginToArrive) {
  for (std::function<void()> Script::*news : {&Script::lose_pushes, &Script::begin_pushes}) {
    set(&Script::forget, false);
    acquire(10min);
    set(&Script::forget, true);
    (script_.*news)();
    EXPECT_LT(await_loss(), deadline() - 5min);
    let_go();
  }
}

TEST_F(CoreTest, WhoAskedBeforePushesWereMissedLooksWhenItHolds) {
  set(&Script::forget, true);
  set(&Script::loses_pushes_first, true);
  acquire(10min);
  EXPECT_LT(await_loss(), deadline() - 5min);
  let_go();
}

TEST_F(CoreTest, ManyHoldersWhoMissedPushesAskInOneBatch) {
#if defined(HOLDFAST_SANITIZED)
  constexpr int kHolders = 300;  // An answer to thousands takes longer than a request may.
#else
  constexpr int kHolders = 3'000;
#endif
  acquire(10min);
  std::vector<Core::AcquisitionPtr> held;
  for (int i = 0; i < kHolders; ++i) {
    AcquireOptions options;
    options.ttl = 10min;
    const std::string name = "n" + std::to_string(i);
    held.push_back(core_->acquire(name, Mode::exclusive(), options, /*may_wait=*/true).value());
  }
  EXPECT_EQ(renewals(), 0);
  for (int i = 0; i < 10; ++i) script_.lose_pushes();
  await_renewals(1);
  EXPECT_TRUE(core_->renew(acquisition_).has_value());
  // The first look, what was asked for while that was under way, and the renewal asked for here.
  EXPECT_LE(renewals(), 4);
  for (const auto& each : held) std::exchange(each->core, nullptr)->release_later(each);
  let_go();
}

// The first waiting thread listens; when it has its answer the next one does.
TEST_F(CoreTest, OneThreadListensAtATimeAndTheLastLeavesTheEar) {
  DeafReader push_reader;
  script_.push_reader = &push_reader;
  script_.queues = true;
  // A machine that stands still for longer than a heartbeat would get all of them in, otherwise.
  script_.keeps_waiting = true;
  std::vector<std::thread> threads;
  std::stop_source stop;
  std::atomic<int> granted = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      AcquireOptions options;
      if (i == 2) options.cancel = stop.get_token();
      const auto answer = core_->acquire("n", Mode::exclusive(), options, /*may_wait=*/true);
      if (!answer) return;
      ++granted;
      std::exchange((*answer)->core, nullptr)->release_later(*answer);
    });
    std::unique_lock lock(script_.mutex);
    ASSERT_TRUE(
        script_.changed.wait_for(lock, kPatience, [&] { return script_.waiting.size() == i + 1; }));
    lock.unlock();
    if (i == 0) push_reader.await_listener(threads[0].get_id());
  }
  script_.push_grant(script_.waiting[1]);  // A thread that does not listen is woken all the same.
  threads[1].join();
  push_reader.await_listener(threads[0].get_id());
  script_.push_grant(script_.waiting[0]);
  threads[0].join();
  push_reader.await_listener(threads[2].get_id());
  // One, if the third had not come to the push reader when the first left.
  const int rests = push_reader.rests();
  stop.request_stop();
  threads[2].join();
  EXPECT_EQ(granted, 2);
  push_reader.await_rests(rests + 1);
}

// The loop has its request, and there is nobody whose release could be pushed.
TEST_F(CoreTest, WhoIsNotQueuedDoesNotListen) {
  DeafReader push_reader;
  script_.push_reader = &push_reader;
  acquire(30s);
  EXPECT_EQ(push_reader.listens(), 0);
  let_go();
}

TEST_F(CoreTest, WhoWaitsAsksWhenPushesWereMissed) {
  script_.queues = true;
  AcquireOptions options;
  options.on_queued = [this](std::uint32_t) { script_.lose_pushes(); };
  EXPECT_TRUE(is_faster_than_the_heartbeat(options));
}

}  // namespace
}  // namespace holdfast::session
