// Single scenes of the engine of contenders (src/contend) in the simulated world: what has to be so
// at a moment that a run with threads meets once in a thousand times.
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/contend/engine.h"
#include "tests/simulation/folder_server.h"

namespace holdfast::simulation {
namespace {

using base::BootClock;
using machine::AcquisitionId;
using machine::Duration;
using machine::Mode;
using port::AcquisitionState;
using port::AcquisitionStatus;
using port::EndStatus;

constexpr auto kLease = FolderServer::kSession * 2;
const std::string kLock = "orders";

struct Asking {
  std::string lock = kLock;
  Mode mode = Mode::exclusive();
  bool may_wait = true;
  Duration waiter_ttl = kLease;
  std::uint32_t max_waiters = 0;
  Duration ttl = kLease;
  std::uint64_t upgrade_of = 0;
};

// A client of a store that answers late, but loses nothing.
class Scene final : port::Listener, port::Loop {
 public:
  explicit Scene(std::uint64_t seed, Duration min_ttl = FolderServer::kSession)
      : world_(seed), server_(world_), process_(world_, 0) {
    server_.on_node = [this](const std::string&, const Node&, bool comes) { entered_ += comes; };
    process_.run([&] {
      alignas(std::max_align_t) static char nothing[16];
      port::StoreContext context;
      context.loop = this;
      context.listener = this;
      context.io = reinterpret_cast<asio::io_context*>(nothing);
      backend_ = make_folder_backend(server_);
      engine_ = std::make_shared<contend::Engine>(*backend_, context, min_ttl);
      backend_->start(engine_.get());
    });
  }
  ~Scene() override {
    world_.closing = true;
    process_.run([&] {
      engine_->close();
      backend_->close({});
      engine_.reset();
    });
    process_.drain_all();
  }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  // --- One call each, waited for.
  Result<AcquisitionState> acquire(std::uint64_t number, const Asking& how = {}) {
    return wait_for<AcquisitionState>([&](port::Done<AcquisitionState> done) {
      port::AcquireRequest request;
      request.name = how.lock;
      request.id = id(number);
      request.mode = how.mode;
      request.ttl = how.ttl;
      request.waiter_ttl = how.waiter_ttl;
      request.may_wait = how.may_wait;
      request.max_waiters = how.max_waiters;
      if (how.upgrade_of != 0) request.upgrade_of = id(how.upgrade_of);
      request.deadline = BootClock::now() + 2s;
      request.issue = ++issues_;
      issue_of_[number] = issues_;
      engine_->acquire(std::move(request), BootClock::now(), std::move(done));
    });
  }
  Result<AcquisitionState> renew(std::uint64_t number, Duration waiter_ttl = kLease,
                                 Duration ttl = kLease) {
    using States = std::vector<Result<AcquisitionState>>;
    const auto states = wait_for<States>([&](const port::Done<States>& done) {
      const auto now = BootClock::now();
      engine_->renew({{kLock, id(number), ++beats_, ttl, waiter_ttl, {}}}, now, now + 1s, done);
    });
    return states ? states->front() : states.error();
  }
  Result<EndStatus> end(std::uint64_t number) {
    return wait_for<EndStatus>([&](port::Done<EndStatus> done) {
      engine_->end({kLock, id(number), BootClock::now() + 1s, issue_of_.at(number)},
                   std::move(done));
    });
  }
  Result<AcquisitionState> downgrade(std::uint64_t number) {
    return wait_for<AcquisitionState>([&](port::Done<AcquisitionState> done) {
      engine_->downgrade({kLock, id(number), BootClock::now() + 1s, issue_of_.at(number)},
                         std::move(done));
    });
  }

  Result<std::vector<LockInfo>> list(const std::string& prefix = {}) {
    return wait_for<std::vector<LockInfo>>([&](port::Done<std::vector<LockInfo>> done) {
      engine_->administration().list(prefix, 100, BootClock::now() + 1s, std::move(done));
    });
  }

  Result<std::optional<LockInfo>> inspect() {
    return wait_for<std::optional<LockInfo>>([&](port::Done<std::optional<LockInfo>> done) {
      engine_->administration().inspect(kLock, BootClock::now() + 1s, std::move(done));
    });
  }
  Result<std::vector<Finding>> probe() {
    return wait_for<std::vector<Finding>>([&](port::Done<std::vector<Finding>> done) {
      engine_->administration().probe(BootClock::now() + 1s, std::move(done));
    });
  }
  Result<bool> break_lock(const machine::Token& token) {
    return wait_for<bool>([&](const port::Done<bool>& done) {
      engine_->administration().break_lock({kLock, token, {}, BootClock::now() + 1s}, done);
    });
  }

  // Another client's contender, whose text is of a later format.
  void stand(std::uint64_t number, const Mode& mode) {
    contend::Details details;
    details.unreadable =
        std::make_shared<Error>(Errc::kVersionMismatch, "of format hf2: upgrade (key 'k')");
    if (stranger_ == 0) stranger_ = server_.open_session();
    server_.enter(kLock, contend::key_for({8, number}, mode, {}), details, stranger_);
  }
  void end_strangers() { server_.end_session(std::exchange(stranger_, 0)); }

  // Alarms that the operator was told.
  std::vector<std::string> alarms;
  FolderServer& server() { return server_; }

  // On the loop, as callers are.
  void run(const std::function<void(contend::Engine&)>& what) {
    bool over = false;
    process_.post(Process::kLoop, [&] {
      what(*engine_);
      over = true;
    });
    while (!over) world_.step();
  }
  port::AcquireRequest request(std::uint64_t number, std::string lock = kLock) {
    port::AcquireRequest request;
    request.name = std::move(lock);
    request.id = id(number);
    request.ttl = request.waiter_ttl = kLease;
    request.deadline = BootClock::now() + 2s;
    request.issue = ++issues_;
    issue_of_[number] = issues_;
    return request;
  }
  port::AcquisitionRequest end_of(std::uint64_t number, std::string lock = kLock) {
    return {std::move(lock), id(number), BootClock::now() + 1s, issue_of_.at(number)};
  }
  port::RenewItem beat(std::uint64_t number) {
    return {kLock, id(number), ++beats_, kLease, kLease, {}};
  }

  void pass(Nanos time) {
    bool over = false;
    world_.after(time, [&over] { over = true; });
    while (!over) world_.step();
  }
  Nanos upto(Nanos most) { return world_.upto(most); }
  // Everything of this client stands still: its keepalives, too.
  void pause(Nanos time) { process_.pause(time); }
  // So many contenders have come so far.
  int entered() const { return entered_; }

 private:
  static AcquisitionId id(std::uint64_t number) { return {7, number}; }

  template <typename T>
  Result<T> wait_for(const std::function<void(port::Done<T>)>& ask) {
    std::optional<Result<T>> answer;
    process_.post(Process::kLoop,
                  [&] { ask([&answer](Result<T> told) { answer = std::move(told); }); });
    const Nanos patience = world_.now + 1min;
    while (!answer && world_.now < patience && world_.step()) {
    }
    if (answer) return *std::move(answer);
    return Error(Errc::kTimedOut, "no answer");
  }

  void on_push(const port::Push&) override {}
  void on_pushes_missed() override {}
  void on_alarm(const std::string& line) override { alarms.push_back(line); }
  void post(port::Task task) override { process_.post(Process::kLoop, std::move(task)); }

  World world_;
  FolderServer server_;
  Process process_;
  std::unique_ptr<contend::Backend> backend_;
  std::shared_ptr<contend::Engine> engine_;
  std::map<std::uint64_t, std::uint64_t> issue_of_;
  std::uint64_t issues_ = 0;
  std::uint64_t beats_ = 0;
  int entered_ = 0;
  std::uint64_t stranger_ = 0;  // Its session.
};

::testing::AssertionResult is(const Result<AcquisitionState>& result, AcquisitionStatus status) {
  if (!result) return ::testing::AssertionFailure() << result.error().message();
  if (result->status == status) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "its status is " << static_cast<int>(result->status);
}
::testing::AssertionResult holds(const Result<AcquisitionState>& result) {
  return is(result, AcquisitionStatus::kHeld);
}
::testing::AssertionResult waits(const Result<AcquisitionState>& result) {
  return is(result, AcquisitionStatus::kWaiting);
}

// The heartbeats of a crowd come late. Were a place lost by that, its owner would queue anew, which
// makes all of them later: for ever.
TEST(ContendScenes, LateHeartbeatsCostNobodyItsPlace) {
  constexpr std::uint64_t kWaiters = 20;
  constexpr Duration kShort = 1s;
  constexpr Nanos kLate = 2s;  // Less than a session, whose keepalives are in time.
  Scene scene(1);
  ASSERT_TRUE(holds(scene.acquire(1)));
  for (std::uint64_t i = 0; i < kWaiters; ++i) {
    ASSERT_TRUE(waits(scene.acquire(10 + i, {.waiter_ttl = kShort})));
  }
  for (int beat = 0; beat < 4; ++beat) {
    scene.pass(kLate);
    ASSERT_TRUE(holds(scene.renew(1)));
    for (std::uint64_t i = 0; i < kWaiters; ++i) {
      const auto state = scene.renew(10 + i, kShort);
      ASSERT_TRUE(waits(state)) << i;
      EXPECT_EQ(state->ahead, i);
    }
  }
  EXPECT_EQ(scene.entered(), 1 + static_cast<int>(kWaiters)) << "somebody has queued anew";
  ASSERT_TRUE(scene.end(1));
  for (std::uint64_t i = 0; i < kWaiters; ++i) {
    ASSERT_TRUE(holds(scene.renew(10 + i))) << i;
    ASSERT_TRUE(scene.end(10 + i));
    // The last ones wait here for longer than a session.
    const bool half = i == kWaiters / 2;
    for (std::uint64_t j = i + 1; half && j < kWaiters; ++j) {
      ASSERT_TRUE(scene.renew(10 + j, kShort)) << j;
    }
  }
}

// Each step costs the store so many requests; a change that adds one is a change for the worse.
TEST(ContendScenes, GrantsAndHandoffsTakeNoMoreRequestsThanTheyNeed) {
  Scene scene(1);
  int before = 0;
  const auto taken = [&] {
    return scene.server().requests - std::exchange(before, scene.server().requests);
  };
  ASSERT_TRUE(holds(scene.acquire(1)));
  EXPECT_EQ(taken(), 1) << "create, and list";
  ASSERT_TRUE(scene.end(1));
  EXPECT_EQ(taken(), 1) << "remove";
  ASSERT_TRUE(holds(scene.acquire(2, {.may_wait = false})));
  ASSERT_TRUE(scene.end(2));
  EXPECT_EQ(taken(), 2) << "a try that is released soon";
  ASSERT_TRUE(holds(scene.acquire(3)));
  before = scene.server().requests;
  ASSERT_TRUE(waits(scene.acquire(4)));
  EXPECT_EQ(taken(), 1) << "create and list: the holder is of this client";
  ASSERT_TRUE(waits(scene.acquire(5)));
  EXPECT_EQ(taken(), 1);
  ASSERT_TRUE(scene.end(3));
  scene.pass(1s);
  EXPECT_EQ(taken(), 1) << "remove, whose answer tells the next waiter that it holds";
  ASSERT_TRUE(holds(scene.renew(4)));
  EXPECT_EQ(taken(), 0) << "a renewal is answered from the session";
  ASSERT_TRUE(scene.end(4));
  ASSERT_TRUE(holds(scene.renew(5)));
  before = scene.server().requests;
  EXPECT_TRUE(is(scene.acquire(6, {.may_wait = false}), AcquisitionStatus::kBusy));
  scene.pass(1s);
  EXPECT_EQ(taken(), 3) << "create and list, read the holder, remove";
  ASSERT_TRUE(holds(scene.acquire(7, {.lock = "r", .mode = Mode::shared()})));
  ASSERT_TRUE(holds(scene.acquire(8, {.lock = "r", .mode = Mode::shared()})));
  EXPECT_EQ(taken(), 2);
  ASSERT_TRUE(holds(scene.acquire(9, {.lock = "p", .mode = Mode::of_permits(1, 1)})));
  EXPECT_EQ(taken(), 1);
  ASSERT_TRUE(waits(scene.acquire(10, {.lock = "p", .mode = Mode::of_permits(1, 1)})));
  EXPECT_EQ(taken(), 2) << "create and list, watch the folder";
}

TEST(ContendScenes, AWaiterBehindAnotherClientWatchesAtTheStore) {
  Scene scene(1);
  scene.stand(1, Mode::exclusive());
  ASSERT_TRUE(waits(scene.acquire(2)));
  EXPECT_EQ(scene.server().requests, 2) << "create and list, watch the holder";
  scene.end_strangers();
  scene.pass(1s);
  EXPECT_EQ(scene.server().requests, 3) << "the waiter lists";
  EXPECT_TRUE(holds(scene.renew(2)));
}

// The holder and its waiters are of one client, so nothing comes from the store.
TEST(ContendScenes, AWaiterBehindItsOwnClientLearnsOfEveryEndOfItsBlocker) {
  Scene scene(1);
  ASSERT_TRUE(holds(scene.acquire(1)));
  ASSERT_TRUE(waits(scene.acquire(2)));
  ASSERT_TRUE(waits(scene.acquire(3)));
  ASSERT_TRUE(waits(scene.acquire(4)));
  // A waiter that gives up is no holder, so the next one must not hold.
  ASSERT_TRUE(scene.end(2));
  scene.pass(100ms);
  EXPECT_TRUE(waits(scene.acquire(3)));
  // A broken holder, of which this store does not notify its client. The heartbeat finds it.
  const auto held = scene.renew(1);
  ASSERT_TRUE(holds(held));
  ASSERT_TRUE(scene.break_lock(held->token));
  ASSERT_TRUE(scene.renew(3));
  EXPECT_TRUE(holds(scene.acquire(3)));
  // A holder that was weakened has not held alone, so a reader may hold beside it.
  ASSERT_TRUE(scene.downgrade(3));
  ASSERT_TRUE(scene.end(3));
  scene.pass(100ms);
  EXPECT_TRUE(holds(scene.acquire(4)));
}

// Removed after what it upgrades, it would hold beside the next in the queue.
TEST(ContendScenes, AnUpgradeIsRemovedBeforeWhatItUpgrades) {
  Scene scene(1);
  ASSERT_TRUE(holds(scene.acquire(1, {.mode = Mode::shared()})));
  ASSERT_TRUE(holds(scene.acquire(2, {.upgrade_of = 1})));
  std::vector<contend::Shape> gone;
  scene.server().on_node = [&](const std::string&, const Node& node, bool comes) {
    if (!comes) gone.push_back(node.key.shape);
  };
  ASSERT_TRUE(scene.end(1));
  scene.pass(1s);
  EXPECT_EQ(gone, (std::vector{contend::Shape::kUpgrade, contend::Shape::kShared}));
}

TEST(ContendScenes, AWaitersPlaceGoesWithItsSession) {
  Scene scene(1);
  ASSERT_TRUE(holds(scene.acquire(1)));
  ASSERT_TRUE(waits(scene.acquire(2)));
  scene.pause(FolderServer::kSession * 2);
  scene.pass(FolderServer::kSession * 2);
  EXPECT_TRUE(is(scene.renew(2), AcquisitionStatus::kGone));
}

// While it looks anew, since the one before it has given up, the holder releases, and is told so.
// The holder's data that it reads meanwhile may be a moment old.
TEST(ContendScenes, ARenewalIsNotToldWhatWasSoBeforeItWasSent) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Scene scene(seed);
    ASSERT_TRUE(holds(scene.acquire(1)));
    ASSERT_TRUE(waits(scene.acquire(2)));
    ASSERT_TRUE(waits(scene.acquire(3)));
    ASSERT_TRUE(scene.end(2));
    scene.pass(scene.upto(20ms));
    ASSERT_TRUE(scene.end(1));
    ASSERT_TRUE(holds(scene.renew(3)));
  }
}

// As where the servers have made the session longer than it was asked for: there is always more.
TEST(ContendScenes, ALeaseShorterThanItsSessionIsRenewedAtOnce) {
  constexpr Duration kShort = FolderServer::kSession / 3;
  Scene scene(1, kShort);
  ASSERT_TRUE(holds(scene.acquire(1, {.ttl = kShort})));
  for (int i = 0; i < 3; ++i) {
    const auto asked = BootClock::now();
    const auto renewed = scene.renew(1, kShort, kShort);
    ASSERT_TRUE(holds(renewed));
    EXPECT_EQ(renewed->lease, kShort);
    EXPECT_LT(BootClock::now() - asked, 50ms);
    scene.pass(kShort / 10);
  }
}

// The head is shared by now, which its name does not tell: whoever stands next to it holds.
TEST(ContendScenes, AReaderBesideAWeakenedHeadIsNotCountedAsAWaiter) {
  Scene scene(1);
  ASSERT_TRUE(holds(scene.acquire(1)));
  ASSERT_TRUE(holds(scene.downgrade(1)));
  ASSERT_TRUE(holds(scene.acquire(2, {.mode = Mode::shared()})));
  const auto first = scene.acquire(3, {.max_waiters = 1});
  ASSERT_TRUE(waits(first)) << "nobody waits before it";
  EXPECT_EQ(first->ahead, 0U);
  const auto second = scene.acquire(4, {.mode = Mode::shared(), .max_waiters = 1});
  ASSERT_FALSE(second) << "one waits before it";
  EXPECT_EQ(second.error().code(), Errc::kQueueFull);
  const auto third = scene.acquire(5, {.mode = Mode::shared(), .max_waiters = 2});
  ASSERT_TRUE(waits(third));
  EXPECT_EQ(third->ahead, 1U);
}

std::vector<std::string> names_of(const Result<std::vector<LockInfo>>& locks) {
  std::vector<std::string> names;
  if (!locks) return {locks.error().message()};
  for (const LockInfo& lock : *locks) names.push_back(lock.name);
  return names;
}

// A later version may have written it, for instance. A caller that looks every second is told once,
// and again when the trouble is another one.
TEST(ContendScenes, ALockThatCannotBeReadIsLeftOutOfAListAndToldOnce) {
  Scene scene(1);
  std::uint64_t number = 0;
  for (const char* lock : {"a", "b", "c"}) {
    ASSERT_TRUE(holds(scene.acquire(++number, {.lock = lock})));
  }
  const std::vector<std::string> others{"a", "c"};
  auto& unreadable = scene.server().unreadable;
  unreadable.insert_or_assign("b", Error(Errc::kVersionMismatch, "of format hf2: upgrade"));
  EXPECT_EQ(names_of(scene.list()), others);
  EXPECT_EQ(names_of(scene.list()), others);
  EXPECT_EQ(names_of(scene.list("a")), std::vector<std::string>{"a"});
  ASSERT_EQ(scene.alarms.size(), 1U);
  EXPECT_NE(scene.alarms[0].find("lock 'b': of format hf2: upgrade"), std::string::npos);
  unreadable.insert_or_assign("b", Error(Errc::kCorruptState, "rubbish"));
  EXPECT_EQ(names_of(scene.list()), others);
  ASSERT_EQ(scene.alarms.size(), 2U);
  EXPECT_NE(scene.alarms[1].find(": lock 'b': rubbish"), std::string::npos);
  unreadable.clear();
  EXPECT_EQ(names_of(scene.list()).size(), 3U);
  unreadable.insert_or_assign("b", Error(Errc::kCorruptState, "rubbish"));
  EXPECT_EQ(names_of(scene.list()), others);
  EXPECT_EQ(scene.alarms.size(), 3U) << "it was mended in between";
}

TEST(ContendScenes, AStoreThatCannotBeAskedOfOneLockGivesNoList) {
  for (const Errc code : {Errc::kUnavailable, Errc::kPermissionDenied, Errc::kClosed}) {
    Scene scene(1);
    std::uint64_t number = 0;
    for (const char* lock : {"a", "b", "c"}) {
      ASSERT_TRUE(holds(scene.acquire(++number, {.lock = lock})));
    }
    scene.server().unreadable.emplace("b", Error(code, "not now"));
    const auto listed = scene.list();
    ASSERT_FALSE(listed);
    EXPECT_EQ(listed.error().code(), code);
    EXPECT_TRUE(scene.alarms.empty());
  }
}

TEST(ContendScenes, TheDoctorTellsOfLocksThatCannotBeRead) {
  Scene scene(1);
  ASSERT_TRUE(holds(scene.acquire(1, {.lock = "a"})));
  auto found = scene.probe();
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->empty());
  scene.stand(1, Mode::exclusive());
  ASSERT_TRUE(holds(scene.acquire(2, {.lock = "b"})));
  scene.server().unreadable.emplace("b", Error(Errc::kCorruptState, "rubbish"));
  found = scene.probe();
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 1U);
  EXPECT_EQ(found->front().severity, Severity::kWarning);
  EXPECT_NE(found->front().what.find("lock 'b': rubbish; so it is with 1 more"), std::string::npos)
      << found->front().what;
}

// Its key tells its place and its mode; of what it says of itself nothing is made up.
TEST(ContendScenes, AContenderThatCannotBeReadKeepsItsPlaceWithTheModeOfItsKey) {
  for (const bool head_in_listings : {false, true}) {
    Scene scene(1);
    scene.server().head_in_listings = head_in_listings;
    scene.stand(1, Mode::exclusive());
    EXPECT_TRUE(is(scene.acquire(1, {.may_wait = false}), AcquisitionStatus::kBusy));
    EXPECT_TRUE(is(scene.acquire(2, {.mode = Mode::shared(), .may_wait = false}),
                   AcquisitionStatus::kBusy));
    EXPECT_FALSE(scene.acquire(3, {.mode = Mode::of_permits(1, 2)}));
    ASSERT_TRUE(waits(scene.acquire(4, {.mode = Mode::shared()})));
    ASSERT_TRUE(waits(scene.acquire(5)));
    EXPECT_TRUE(waits(scene.renew(4)));
    scene.end_strangers();
    EXPECT_TRUE(holds(scene.renew(4)));
    EXPECT_TRUE(waits(scene.renew(5)));
    ASSERT_TRUE(scene.end(4));
    EXPECT_TRUE(holds(scene.renew(5)));
  }
  Scene scene(1);
  scene.stand(1, Mode::shared());
  EXPECT_TRUE(holds(scene.acquire(1, {.mode = Mode::shared()})));
}

TEST(ContendScenes, WhoIsKeptOutByAContenderThatCannotBeReadIsToldSoOnce) {
  for (const bool may_wait : {false, true}) {
    for (const bool head_in_listings : {false, true}) {
      Scene scene(1);
      scene.server().head_in_listings = head_in_listings;
      scene.stand(1, Mode::exclusive());
      EXPECT_TRUE(scene.acquire(1, {.may_wait = may_wait}));
      EXPECT_TRUE(scene.acquire(2, {.may_wait = false}));
      ASSERT_EQ(scene.alarms.size(), 1U);
      EXPECT_NE(scene.alarms[0].find("lock 'orders': of format hf2: upgrade (key 'k'): it keeps"),
                std::string::npos)
          << scene.alarms[0];
    }
  }
}

// A waiter behind it learns of its mark from the folder, because it cannot be read.
TEST(ContendScenes, PermitsAreHadBehindAWaiterThatCannotBeRead) {
  Scene scene(1);
  ASSERT_TRUE(holds(scene.acquire(1, {.mode = Mode::of_permits(2, 3)})));
  scene.stand(1, Mode::of_permits(2, 3));
  ASSERT_TRUE(waits(scene.acquire(2, {.mode = Mode::of_permits(1, 3)})));
  ASSERT_TRUE(scene.end(1));
  scene.pass(20ms);
  EXPECT_TRUE(holds(scene.renew(2)));
}

TEST(ContendScenes, LookingAndBreakingGoOnBesideAContenderThatCannotBeRead) {
  Scene scene(1);
  const auto held = scene.acquire(1, {.mode = Mode::shared()});
  ASSERT_TRUE(holds(held));
  scene.stand(1, Mode::shared());
  scene.stand(2, Mode::exclusive());
  for (int i = 0; i < 2; ++i) {
    const auto seen = scene.inspect();
    ASSERT_TRUE(seen && *seen) << "it cannot be looked at";
    ASSERT_EQ((*seen)->holders.size(), 2U);
    EXPECT_EQ((*seen)->holders[0].token.counter, held->token.counter);
    EXPECT_EQ((*seen)->holders[1].token, Token{}) << "it is not known";
    EXPECT_EQ((*seen)->holders[1].time_left.count(), 0);
    EXPECT_EQ((*seen)->waiters.size(), 1U);
    EXPECT_EQ((*seen)->last_token.counter, held->token.counter);
    EXPECT_EQ(names_of(scene.list()), std::vector<std::string>{kLock});
  }
  ASSERT_EQ(scene.alarms.size(), 1U) << "once";
  EXPECT_NE(
      scene.alarms[0].find("lock 'orders': of format hf2: upgrade (key 'k'), and 1 more: they "
                           "keep their places"),
      std::string::npos)
      << scene.alarms[0];
  const auto other = scene.break_lock({0, held->token.counter + 1});
  ASSERT_FALSE(other) << "it may be the token of who cannot be read";
  EXPECT_EQ(other.error().code(), Errc::kVersionMismatch);
  EXPECT_NE(other.error().message().find("(key 'k')"), std::string::npos);
  EXPECT_TRUE(scene.break_lock(held->token));
  const auto left = scene.inspect();
  ASSERT_TRUE(left && *left);
  EXPECT_EQ((*left)->holders.size(), 1U);
  EXPECT_EQ((*left)->waiters.size(), 1U);
}

// The store keeps nothing of a free lock but the trace of a break, and later holders are not known.
TEST(ContendScenes, TheTokenOfABreakIsNotToldAsTheLastOne) {
  Scene scene(1);
  const auto first = scene.acquire(1);
  ASSERT_TRUE(holds(first));
  ASSERT_TRUE(scene.break_lock(first->token));
  ASSERT_TRUE(holds(scene.acquire(2)));
  auto seen = scene.inspect();
  ASSERT_TRUE(seen && *seen);
  EXPECT_GT((*seen)->last_token.counter, first->token.counter);
  ASSERT_TRUE(scene.end(2));
  seen = scene.inspect();
  ASSERT_TRUE(seen && *seen);
  EXPECT_EQ((*seen)->last_token, Token{});
  ASSERT_TRUE((*seen)->last_break);
  EXPECT_EQ((*seen)->last_break->token.counter, first->token.counter);
}

using States = std::vector<Result<AcquisitionState>>;

// The caller of a renewal is not forgotten when the one that is told first closes.
TEST(ContendAttack, WhoClosesInACallbackTakesNobodysAnswer) {
  Scene scene(1);
  ASSERT_TRUE(holds(scene.acquire(1)));
  ASSERT_TRUE(waits(scene.acquire(2)));
  int renewed = 0;
  int ended = 0;
  scene.run([&](contend::Engine& engine) {
    engine.renew({scene.beat(2)}, BootClock::now(), BootClock::now() + 1s,
                 [&](const Result<States>&) { ++renewed; });
    engine.end(scene.end_of(2), [&](const Result<EndStatus>&) {
      ++ended;
      engine.close();
    });
  });
  scene.pass(5s);
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(renewed, 1);
}

// The times in due_ are cleared while the acquisition that has ended has a time in it.
TEST(ContendAttack, WhoClosesInACallbackLeavesNoTimeBehind) {
  Scene scene(1);
  ASSERT_TRUE(holds(scene.acquire(1)));
  int renewed = 0;
  scene.run([&](contend::Engine& engine) {
    for (int i = 0; i < 2; ++i) {
      engine.renew({scene.beat(1)}, BootClock::now(), BootClock::now() + 1s,
                   [&](const Result<States>&) {
                     if (++renewed == 1) engine.close();
                   });
    }
    engine.on_session_ended(1, Error(Errc::kLost, "test"));
  });
  EXPECT_EQ(renewed, 2);
}

// Asked again between its end and its Forget.
TEST(ContendAttack, WhoAsksForWhatHasJustEndedIsAnswered) {
  Scene scene(1);
  ASSERT_TRUE(holds(scene.acquire(1)));
  ASSERT_TRUE(holds(scene.renew(1)));
  int first = 0;
  int again = 0;
  scene.run([&](contend::Engine& engine) {
    engine.acquire(
        scene.request(5, "other"), BootClock::now(), [&](const Result<AcquisitionState>&) {
          // A new one, given up at once; what is answered next asks for it once more.
          auto request = scene.request(2, "third");
          engine.acquire(request, BootClock::now(),
                         [&](const Result<AcquisitionState>&) { ++first; });
          engine.end(scene.end_of(2, "third"), [](const Result<EndStatus>&) {});
          engine.renew({scene.beat(1)}, BootClock::now(), BootClock::now(),
                       [&, request](const Result<States>&) {
                         engine.acquire(request, BootClock::now(),
                                        [&](const Result<AcquisitionState>&) { ++again; });
                       });
        });
  });
  scene.pass(5s);
  EXPECT_EQ(first, 1);
  EXPECT_EQ(again, 1);
}

// attack 4 and 5: under way when the client closes.
TEST(ContendAttack, AShrinkUnderWayIsAnsweredWhenTheClientCloses) {
  Scene scene(1);
  ASSERT_TRUE(holds(scene.acquire(1, {.mode = Mode::of_permits(1, 3)})));
  int told = 0;
  scene.run([&](contend::Engine& engine) {
    auto request = scene.request(9);
    engine.resize(scene.end_of(9), 2, [&](const Result<bool>&) { ++told; });
    engine.close();
  });
  scene.pass(5s);
  EXPECT_EQ(told, 1);
}
TEST(ContendAttack, ABreakUnderWayIsAnsweredWhenTheClientCloses) {
  Scene scene(1);
  const auto held = scene.acquire(1);
  ASSERT_TRUE(holds(held));
  int told = 0;
  scene.run([&](contend::Engine& engine) {
    engine.administration().break_lock({kLock, held->token, {}, BootClock::now() + 1s},
                                       [&](const Result<bool>&) { ++told; });
    engine.close();
  });
  scene.pass(5s);
  EXPECT_EQ(told, 1);
}

// A release whose caller has no time left says nothing of the store.
TEST(ContendAttack, AReleaseWithoutTimeIsNoOutage) {
  Scene scene(1);
  ASSERT_TRUE(holds(scene.acquire(1)));
  scene.pass(3s);
  scene.run([&](contend::Engine& engine) {
    auto request = scene.end_of(1);
    request.deadline = BootClock::now();
    engine.end(request, [](const Result<EndStatus>&) {});
  });
  scene.pass(1s);
  EXPECT_TRUE(scene.alarms.empty()) << scene.alarms.front();
}

// attack 7b: the same by the engine.
TEST(ContendAttack, WhoGaveUpBeforeItCameIsToldWhenTheSessionEnds) {
  Scene scene(1);
  ASSERT_TRUE(holds(scene.acquire(1)));
  int told = 0;
  scene.run([&](contend::Engine& engine) {
    engine.acquire(scene.request(2), BootClock::now(), [](const Result<AcquisitionState>&) {});
    engine.end(scene.end_of(2), [&](const Result<EndStatus>&) { ++told; });
    engine.on_session_ended(1, Error(Errc::kLost, "test"));
    EXPECT_EQ(told, 1);
  });
}

}  // namespace
}  // namespace holdfast::simulation
