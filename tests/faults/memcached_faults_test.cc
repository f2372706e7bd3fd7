// Faults around a real memcached, seen through the store.
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/random.h"
#include "src/stores/memcached/memcached_store.h"
#include "src/stores/memcached/protocol/replies.h"
#include "tests/conformance/harness.h"
#include "tests/conformance/herd.h"
#include "tests/support/eventually.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/memcached_server.h"

namespace holdfast::testing {
namespace {

using support::eventually;
using support::Fault;
using support::FaultProxy;
using support::MemcachedServer;

MemcachedServer& server() {
  static MemcachedServer one;
  return one;
}

class UrlSite final : public Site {
 public:
  explicit UrlSite(std::uint16_t port) : port_(port) {}
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    const std::string url =
        "memcached://127.0.0.1:" + std::to_string(port_) + "?connect_timeout=500ms";
    return stores::make_memcached_store(*port::StoreUrl::parse(url), context);
  }
  void pass(Duration time) override { std::this_thread::sleep_for(time); }

 private:
  const std::uint16_t port_;
};

AcquisitionId fresh() {
  const auto random = base::random_128();
  return {random.high, random.low};
}

std::string key(const std::string& name) { return stores::memcached::key_of(name); }

bool held_by(Client& who, const std::string& name, AcquisitionId id) {
  const auto state = who.renew(name, id, 1'000);
  return state && state->status == AcquisitionStatus::kHeld;
}

class MemcachedFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_MEMCACHED(); }
};

TEST_F(MemcachedFaultsTest, AGrantWhoseReplyIsLostIsFoundAgain) {
  FaultProxy proxy({.server_port = server().port()});
  UrlSite site(proxy.port());
  Client alice(site, "alice");
  const AcquisitionId id = fresh();
  const int lost = proxy.add(
      {.kind = Fault::Kind::kDropReplies, .containing = "ms " + key("lost-grant"), .times = 1});
  const auto state = alice.acquire(Request("lost-grant", id));
  ASSERT_TRUE(state) << state.error().message();
  EXPECT_EQ(state->status, AcquisitionStatus::kHeld);
  EXPECT_TRUE(proxy.wait_for_hits(lost));
  EXPECT_EQ(*alice.release("lost-grant", id), EndStatus::kReleased);
}

TEST_F(MemcachedFaultsTest, AReleaseWhoseReplyIsLostReleases) {
  FaultProxy proxy({.server_port = server().port()});
  UrlSite site(proxy.port());
  Client alice(site, "alice");
  const AcquisitionId id = fresh();
  ASSERT_TRUE(alice.acquire(Request("lost-release", id)));
  proxy.add(
      {.kind = Fault::Kind::kDropReplies, .containing = "md " + key("lost-release"), .times = 1});
  const auto end = alice.release("lost-release", id);
  ASSERT_TRUE(end) << end.error().message();
  const auto next = alice.acquire(Request("lost-release", fresh()).no_wait());
  ASSERT_TRUE(next);
  EXPECT_EQ(next->status, AcquisitionStatus::kHeld);
}

// The first request arrives when the acquisition, which a second one got, has long ended.
TEST_F(MemcachedFaultsTest, AGrantThatArrivesAfterTheReleaseChangesNothing) {
  FaultProxy proxy({.server_port = server().port()});
  UrlSite site(proxy.port());
  Client alice(site, "alice");
  const AcquisitionId id = fresh();
  const int held =
      proxy.add({.kind = Fault::Kind::kHold, .containing = "ms " + key("late"), .times = 1});
  const auto state = alice.acquire(Request("late", id));
  ASSERT_TRUE(state) << state.error().message();
  EXPECT_EQ(state->status, AcquisitionStatus::kHeld);
  EXPECT_EQ(*alice.release("late", id), EndStatus::kReleased);
  const auto before = proxy.stats().replies_to_the_gone;
  proxy.remove(held);
  ASSERT_TRUE(proxy.wait_for(
      [&](const support::ProxyStats& stats) { return stats.replies_to_the_gone > before; }));
  const auto seen = alice.inspect("late");
  ASSERT_TRUE(seen);
  EXPECT_TRUE(!*seen || (*seen)->holders.empty());
  const auto next = alice.acquire(Request("late", fresh()).no_wait());
  ASSERT_TRUE(next);
  EXPECT_EQ(next->status, AcquisitionStatus::kHeld);
}

TEST_F(MemcachedFaultsTest, AReleaseThatArrivesLateFreesNobodyElsesLock) {
  FaultProxy proxy({.server_port = server().port()});
  UrlSite slow(proxy.port());
  UrlSite site(server().port());
  Client alice(slow, "alice");
  Client bob(site, "bob");
  const AcquisitionId old = fresh();
  ASSERT_TRUE(alice.acquire(Request("zombie", old).leases(300ms, 300ms)));
  const int held = proxy.add({.kind = Fault::Kind::kHold, .containing = "md " + key("zombie")});
  port::AcquisitionRequest release{"zombie", old, base::BootClock::now() + 100ms, 0, false};
  std::promise<Errc> told;
  alice.store().release(release, [&](Result<EndStatus> end) {
    told.set_value(end ? Errc::kLost : end.error().code());
  });
  EXPECT_EQ(told.get_future().get(), Errc::kOutcomeUnknown);
  const AcquisitionId own = fresh();
  ASSERT_TRUE(eventually([&] {
    const auto state = bob.acquire(Request("zombie", own).no_wait());
    return state && state->status == AcquisitionStatus::kHeld;
  }));
  const auto before = proxy.stats().replies_to_the_gone;
  proxy.remove(held);
  ASSERT_TRUE(proxy.wait_for(
      [&](const support::ProxyStats& stats) { return stats.replies_to_the_gone > before; }));
  EXPECT_TRUE(held_by(bob, "zombie", own));
}

TEST_F(MemcachedFaultsTest, ACasNumberFromBeforeARestartChangesNothing) {
  MemcachedServer restarted;
  UrlSite site(restarted.port());
  Client alice(site, "alice");
  const AcquisitionId old = fresh();
  const auto first = alice.acquire(Request("numbers", old));
  ASSERT_TRUE(first);
  restarted.kill9();
  restarted.start();
  Client bob(site, "bob");
  const AcquisitionId own = fresh();
  // The first write to each server: both have the same number.
  ASSERT_EQ(bob.acquire(Request("numbers", own).no_wait())->status, AcquisitionStatus::kHeld);
  const std::string item = restarted.command("mg " + key("numbers") + " c");
  EXPECT_NE(item.find("HD c1\r"), std::string::npos) << item;
  const auto renewed = alice.renew("numbers", old, 1);
  EXPECT_TRUE(!renewed || renewed->status == AcquisitionStatus::kGone);
  const auto released = alice.release("numbers", old);
  EXPECT_TRUE(!released || *released == EndStatus::kGone);
  EXPECT_TRUE(held_by(bob, "numbers", own));
}

TEST_F(MemcachedFaultsTest, ARenewalNeverWritesALostLockAgain) {
  UrlSite site(server().port());
  Client alice(site, "alice");
  const AcquisitionId id = fresh();
  ASSERT_TRUE(alice.acquire(Request("lost", id)));
  server().flush_all();
  const auto renewed = alice.renew("lost", id, 1);
  ASSERT_TRUE(renewed) << renewed.error().message();
  EXPECT_EQ(renewed->status, AcquisitionStatus::kGone);
  EXPECT_NE(server().command("mg " + key("lost") + " c").find("EN\r"), std::string::npos);
}

TEST_F(MemcachedFaultsTest, TenWaitersOfASilentClientCostOneOfTheirLeases) {
  FaultProxy proxy({.server_port = server().port()});
  UrlSite cut(proxy.port());
  UrlSite site(server().port());
  Client alice(site, "alice");
  Client dead(cut, "dead");
  Client carol(site, "carol");
  const AcquisitionId holder = fresh();
  const AcquisitionId last = fresh();
  ASSERT_EQ(alice.acquire(Request("ten", holder))->status, AcquisitionStatus::kHeld);
  for (int i = 0; i < 10; ++i) {
    const auto waits = dead.acquire(Request("ten", fresh()).leases(30s, 500ms));
    ASSERT_EQ(waits->status, AcquisitionStatus::kWaiting);
  }
  ASSERT_EQ(carol.acquire(Request("ten", last))->status, AcquisitionStatus::kWaiting);
  proxy.refuse(true);
  proxy.reset_all();
  const auto begin = base::BootClock::now();
  ASSERT_EQ(*alice.release("ten", holder), EndStatus::kReleased);
  const auto told = carol.inbox().next(last);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->kind, Push::Kind::kGranted);
  EXPECT_LT(base::BootClock::now() - begin, 3s);  // Not ten of them.
}

TEST_F(MemcachedFaultsTest, AnUnreachableServerIsUnavailableInTimeAndFoundAgain) {
  FaultProxy proxy({.server_port = server().port()});
  UrlSite site(proxy.port());
  Client alice(site, "alice");
  proxy.refuse(true);
  proxy.reset_all();
  Request request("unreachable", fresh());
  request.deadline = base::BootClock::now() + 1s;
  const auto state = alice.acquire(request);
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code(), Errc::kUnavailable) << state.error().message();
  proxy.refuse(false);
  EXPECT_TRUE(eventually([&] {
    const auto again = alice.acquire(Request("reachable", fresh()));
    return again && again->status == AcquisitionStatus::kHeld;
  }));
}

TEST_F(MemcachedFaultsTest, AServerWithoutCasNumbersIsRefused) {
  const MemcachedServer without({"-C"});
  TestLoop loop;
  Inbox inbox(loop);
  const auto opened = UrlSite(without.port()).open({&loop, &inbox, "alice", loop.io()});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), Errc::kInvalidArgument);
  EXPECT_NE(opened.error().message().find("-C"), std::string::npos);
}

// With -M a full server refuses: surely nothing was stored.
TEST_F(MemcachedFaultsTest, AFullServerThatEvictsNothingRefuses) {
  const MemcachedServer full({"-M", "-m", "2"});
  UrlSite site(full.port());
  Client alice(site, "alice");
  std::optional<Error> refused;
  for (int i = 0; i < 60'000 && !refused; ++i) {
    const auto state = alice.acquire(Request("fill/" + std::to_string(i), fresh()));
    if (!state) refused = state.error();
  }
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code(), Errc::kUnavailable);
  EXPECT_NE(refused->message().find("out of memory"), std::string::npos) << refused->message();
}

class HerdSite final : public Site {
 public:
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    return stores::make_memcached_store(*port::StoreUrl::parse(server_.url()), context);
  }
  void pass(Duration) override {}
  // All requests so far that read, write or delete.
  std::int64_t requests() const {
    const auto deletions = server_.stat("delete_hits") + server_.stat("delete_misses");
    return static_cast<std::int64_t>(server_.stat("cmd_get") + server_.stat("cmd_set") + deletions);
  }
  // Without the one that asks.
  std::int64_t connections() const {
    return static_cast<std::int64_t>(server_.stat("curr_connections")) - 1;
  }

 private:
  const MemcachedServer server_;
};

// A release reads and writes; the next one's client asks, then reads. Beside it the other clients
// ask at their pace while that takes, and under a sanitizer it takes longer.
#if defined(HOLDFAST_SANITIZED)
constexpr int kMostRequests = 120;
#else
constexpr int kMostRequests = 40;
#endif

TEST_F(MemcachedFaultsTest, RequestsOfAReleaseDoNotGrowWithTheQueue) {
  HerdSite site;
  const std::int64_t own = site.connections();  // The server counts its listeners, too.
  Herd herd(site, 10, [&] { return site.requests(); });
  herd.expect_constant_cost("requests", kMostRequests,
                            [&] { EXPECT_LE(site.connections() - own, 20); });
}

TEST_F(MemcachedFaultsTest, AThousandWaitersOfOneClientAskAsOne) {
  HerdSite site;
  Client holder(site, "holder");
  Client crowd(site, "crowd");
  ASSERT_TRUE(holder.acquire(Request("crowd", fresh())));
  std::vector<std::future<Result<AcquisitionState>>> waits;
  for (int i = 0; i < 1000; ++i) {
    waits.push_back(crowd.start_acquire(Request("crowd", fresh()).leases(1h, 1h)));
  }
  for (auto& each : waits) ASSERT_EQ(each.get()->status, AcquisitionStatus::kWaiting);
  const std::int64_t before = site.requests();
  const auto begin = base::BootClock::now();
  std::this_thread::sleep_for(2s);  // The span that is measured.
  const double seconds = std::chrono::duration<double>(base::BootClock::now() - begin).count();
  const double rate = static_cast<double>(site.requests() - before) / seconds;
  RecordProperty("requests_per_s", std::to_string(rate));
  EXPECT_LE(rate, 25);  // 10 when the pause is at its longest; before that it grows.
  EXPECT_GE(rate, 1);
}

}  // namespace
}  // namespace holdfast::testing
