// The end of a lock server: a watch tells of it, a lock-delay outlasts it, and it may come in the
// middle of a drain.
#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "holdfast/stores.h"
#include "src/base/clock.h"
#include "tests/faults/client_side.h"
#include "tests/faults/service_cluster.h"
#include "tests/support/holdfast_server.h"

namespace holdfast::faults {
namespace {

using base::BootClock;
using base::BootInstant;
using support::HoldfastServer;
using Kinds = std::vector<LockEventKind>;

// The kinds of the events that a watch has told.
class Told {
 public:
  auto sink() {
    return [this](const LockEvent& event) {
      const std::lock_guard lock(mutex_);
      kinds_.push_back(event.kind);
    };
  }
  Kinds all() {
    const std::lock_guard lock(mutex_);
    return kinds_;
  }

 private:
  std::mutex mutex_;
  Kinds kinds_;
};

// Rule 57: a watch that cannot go on where it was says so, once, before it tells more.
void expect_told_that_it_missed(const std::string& url, const std::function<void()>& move) {
  const Client watches = connect(url);
  const Client works = connect(url);
  Told told;
  const auto watch = watches.watch("w/", told.sink());
  ASSERT_TRUE(watch) << watch.error().message();
  auto before = works.mutex("w/before").acquire({.wait = kLong, .ttl = 300s});
  ASSERT_TRUE(before) << before.error().message();
  ASSERT_TRUE(eventually([&] { return told.all() == Kinds{LockEventKind::kGranted}; }));
  move();
  // Nobody else knows when the watch listens again. So there is always something to be told.
  int number = 0;
  ASSERT_TRUE(eventually([&] {
    auto lease = works.mutex("w/" + std::to_string(++number)).try_acquire();
    if (lease && *lease) static_cast<void>((*lease)->release());
    return told.all().size() >= 3;
  }));
  const Kinds all = told.all();
  EXPECT_EQ(all[1], LockEventKind::kMissed);
  EXPECT_EQ(std::count(all.begin(), all.end(), LockEventKind::kMissed), 1);
}

TEST(ServiceMovesTest, AWatchTellsThatItMissedTheChangesOfATakeOver) {
  ServiceCluster cluster;
  expect_told_that_it_missed(cluster.url(), [&] {
    cluster[0].kill9();
    EXPECT_TRUE(eventually([&] { return cluster[1].leads(); }));
  });
}

TEST(ServiceMovesTest, AWatchTellsThatItMissedTheChangesOfAnOrderlyMove) {
  ServiceCluster cluster({}, 2, "60s");
  expect_told_that_it_missed(cluster.url(), [&] {
    const auto gone = drain_server(cluster.url(), cluster.address(0), kLong);
    EXPECT_TRUE(gone) << gone.error().message();
  });
}

TEST(ServiceMovesTest, AWatchTellsThatItMissedTheChangesOfARestart) {
  HoldfastServer server;
  expect_told_that_it_missed(server.url() + "?open_timeout=60s", [&] {
    server.kill9();
    server.start();
  });
}

// --- The lock-delay (docs/design/0071-lock-delay.md).

constexpr milliseconds kTtl = 1s;
constexpr milliseconds kDelay = 6s;

// The holder dies with the server, or before: nobody renews its lease or gives it back.
void leave_a_lease_behind(const std::string& url) {
  auto holder = std::make_unique<Client>(connect(url));
  auto lease = holder->mutex("a").acquire(
      {.wait = kLong, .ttl = kTtl, .auto_renew = false, .lock_delay = kDelay});
  ASSERT_TRUE(lease) << lease.error().message();
  EXPECT_TRUE(fires(lease->lost())) << "the handle of a lost lease gives nothing back";
}

TEST(ServiceMovesTest, ALockDelayIsWholeAgainAfterATakeOver) {
  ServiceCluster cluster;
  leave_a_lease_behind(cluster.url());
  cluster[0].kill9();
  // The last moment at which the next server was seen not to lead.
  BootInstant before = BootClock::now();
  EXPECT_TRUE(eventually([&] {
    const auto now = BootClock::now();
    if (cluster[1].leads()) return true;
    before = now;
    return false;
  }));
  const Client next = connect(cluster.url());
  const Lease lease = hold(next, "a");
  EXPECT_GE(BootClock::now() - before, kTtl + kDelay);
}

TEST(ServiceMovesTest, ALockDelayIsWholeAgainAfterARestart) {
  HoldfastServer server;
  leave_a_lease_behind(server.url());
  server.kill9();
  const auto before = BootClock::now();
  server.start();
  const Client next = connect(server.url());
  const Lease lease = hold(next, "a");
  EXPECT_GE(BootClock::now() - before, kTtl + kDelay);
}

// An orderly move lengthens no lease, and cuts none.
TEST(ServiceMovesTest, ALockDelayIsWhatWasLeftOfItAfterAnOrderlyMove) {
  ServiceCluster cluster({}, 2, "60s");
  const auto before = BootClock::now();
  leave_a_lease_behind(cluster.url());
  const auto gone = drain_server(cluster.url(), cluster.address(0), kLong);
  ASSERT_TRUE(gone) << gone.error().message();
  const Client next = connect(cluster.url());
  const Lease lease = hold(next, "a");
  EXPECT_GE(BootClock::now() - before, kTtl + kDelay);
}

// The holder lives, and its server does not answer for longer than the lease: it is told of the
// loss, and the lock opens a lock-delay after that at the earliest.
TEST(ServiceMovesTest, AHolderThatCannotRenewIsToldALockDelayBeforeTheNextOne) {
  ServiceCluster cluster({}, 2, "5s");
  const Client one = connect(cluster.url());
  const Client two = connect(cluster.url());
  auto lease = one.mutex("a").acquire({.wait = kLong, .ttl = kTtl, .lock_delay = kDelay});
  ASSERT_TRUE(lease) << lease.error().message();
  auto waiting = wait_for(two, "a");
  cluster[0].kill9();
  ASSERT_TRUE(fires(lease->lost()));
  const auto lost = BootClock::now();
  auto next = waiting.get();
  ASSERT_TRUE(next) << next.error().message();
  EXPECT_GE(BootClock::now() - lost, kDelay);
}

// Its holder has ended in order. Without the release the lock would stay closed for ten minutes.
TEST(ServiceMovesTest, AReleaseThatFoundNoServerOpensTheLockWhenThereIsOneAgain) {
  ServiceCluster cluster;
  const Client one = connect(cluster.url(), 1s);
  const Client two = connect(cluster.url());
  auto lease = one.mutex("a").acquire({.wait = kLong, .ttl = 2s, .lock_delay = 600s});
  ASSERT_TRUE(lease) << lease.error().message();
  cluster[0].kill9();
  EXPECT_FALSE(lease->release());
  EXPECT_TRUE(eventually([&] { return cluster[1].leads(); }));
  EXPECT_GT(hold(two, "a").token(), lease->token());
}

TEST(ServiceMovesTest, ABreakEndsALockDelayAlsoAfterATakeOver) {
  ServiceCluster cluster;
  const Client one = connect(cluster.url());
  auto lease =
      one.mutex("a").acquire({.wait = kLong, .ttl = kTtl, .auto_renew = false, .lock_delay = 600s});
  ASSERT_TRUE(lease) << lease.error().message();
  cluster[0].kill9();
  EXPECT_TRUE(eventually([&] { return cluster[1].leads(); }));
  const Client two = connect(cluster.url());
  const auto tried = two.mutex("a").try_acquire();
  EXPECT_TRUE(tried && !*tried);
  const auto broken = two.break_lock("a", lease->token(), "its host is off");
  ASSERT_TRUE(broken) << broken.error().message();
  EXPECT_GT(hold(two, "a").token(), lease->token());
}

// --- A drain.

// Without etcd the server cannot write what is left of its leases, so the drain waits.
TEST(ServiceMovesTest, AServerThatDiesWhileItIsDrainedIsGoneAndItsLeasesStay) {
  ServiceCluster cluster;
  const Client one = connect(cluster.url());
  auto lease = one.mutex("a").acquire({.wait = kLong, .ttl = 300s});
  ASSERT_TRUE(lease) << lease.error().message();
  cluster.etcd().pause();
  auto gone = std::async(std::launch::async,
                         [&] { return drain_server(cluster.url(), cluster.address(0), kLong); });
  EXPECT_TRUE(eventually([&] {
    return cluster[0].log().find("is asked to stop") != std::string::npos;
  })) << cluster[0].log();
  EXPECT_EQ(gone.wait_for(0s), std::future_status::timeout);
  cluster[0].kill9();
  cluster.etcd().resume();
  const auto told = gone.get();
  EXPECT_TRUE(told) << told.error().message();
  EXPECT_TRUE(eventually([&] { return cluster[1].leads(); }));
  EXPECT_TRUE(eventually([&] { return static_cast<bool>(lease->renew()); }));
  expect_released(*lease);
}

TEST(ServiceMovesTest, ADrainOfAServerThatStandsStillIsGivenUpInTime) {
  HoldfastServer server;
  const std::string address = "127.0.0.1:" + std::to_string(server.port());
  server.pause();
  const auto refused = drain_server(server.url() + "?connect_timeout=500ms", address, 2s);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::kUnavailable) << refused.error().message();
  server.resume();
}

}  // namespace
}  // namespace holdfast::faults
