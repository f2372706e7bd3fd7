// How long two may hold one lock when memcached forgets it, as users see it: the page's promise.
#include <chrono>
#include <cstdio>
#include <functional>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "src/base/clock.h"
#include "tests/support/eventually.h"
#include "tests/support/memcached_server.h"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using support::eventually;
using support::MemcachedServer;

constexpr auto kTtl = 3s;

class MemcachedLossTest : public ::testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_MEMCACHED(); }

  static Client connect(const MemcachedServer& server) {
    auto client = Client::connect(server.url());
    if (!client) throw std::runtime_error(client.error().message());
    return *std::move(client);
  }

  // The lock is lost, and another client takes it as soon as it can. How long both hold.
  static std::chrono::milliseconds overlap(MemcachedServer& server,
                                           const std::function<void()>& lose) {
    const Client first = connect(server);
    const Client second = connect(server);
    auto held = first.mutex("orders").acquire({.ttl = kTtl});
    EXPECT_TRUE(held) << held.error().message();
    lose();
    std::optional<Lease> other;
    EXPECT_TRUE(eventually([&] {
      auto taken = second.mutex("orders").try_acquire({.ttl = kTtl});
      if (taken && *taken) other = *std::move(*taken);
      return other.has_value();
    }));
    const auto since = base::BootClock::now();
    EXPECT_TRUE(eventually([&] { return !held->held(); }, 2 * kTtl));
    EXPECT_TRUE(other && other->held());
    return std::chrono::duration_cast<std::chrono::milliseconds>(base::BootClock::now() - since);
  }

  static void expect_as_promised(const char* how, std::chrono::milliseconds both) {
    std::printf("%s: both held for %d ms\n", how, static_cast<int>(both.count()));
    RecordProperty(std::string("overlap_ms_") + how, static_cast<int>(both.count()));
    EXPECT_LE(both, kTtl);
  }
};

TEST_F(MemcachedLossTest, AFlushLetsTwoHoldUntilTheNextRenewal) {
  MemcachedServer server;
  expect_as_promised("flush_all", overlap(server, [&] { server.flush_all(); }));
}

TEST_F(MemcachedLossTest, AKillWithARestartLetsTwoHoldUntilTheNextRenewal) {
  MemcachedServer server;
  expect_as_promised("kill", overlap(server, [&] {
                       server.kill9();
                       server.start();
                     }));
}

TEST_F(MemcachedLossTest, AnEvictionLetsTwoHoldUntilTheNextRenewal) {
  MemcachedServer server({"-m", "2"});
  std::string items;
  const std::string value(200, 'x');
  for (int i = 0; i < 30'000; ++i) {
    items += "set filler" + std::to_string(i) + " 0 0 200 noreply\r\n" + value + "\r\n";
  }
  items += "version";
  expect_as_promised("eviction", overlap(server, [&] { server.command(items); }));
  EXPECT_GT(server.stat("evictions"), 0U);
}

// Its renewal is on the way while the server stands still.
TEST_F(MemcachedLossTest, APauseLongerThanTheLeaseLetsNobodyElseHoldBeforeTheHolderStops) {
  MemcachedServer server;
  for (int round = 0; round < 2; ++round) {
    const Client first = connect(server);
    const Client second = connect(server);
    auto held = first.mutex("orders").acquire({.ttl = 900ms});
    ASSERT_TRUE(held) << held.error().message();
    auto waits = std::async(std::launch::async, [&] {
      auto next = second.mutex("orders").acquire({.wait = 30s, .ttl = 5s});
      return std::pair(base::BootClock::now(), std::move(next));
    });
    ASSERT_TRUE(eventually([&] {
      const auto info = first.inspect("orders");
      return info && *info && (*info)->waiters.size() == 1;
    }));
    server.pause();
    EXPECT_TRUE(eventually([&] { return !held->held(); }));
    const auto stopped = base::BootClock::now();
    std::this_thread::sleep_for(700ms);  // A pause of nearly twice the lease.
    server.resume();
    auto [when, next] = waits.get();
    ASSERT_TRUE(next) << next.error().message();
    EXPECT_GT(when, stopped);
    EXPECT_FALSE(held->held());
    EXPECT_TRUE(next->held());
    EXPECT_TRUE(next->release());
  }
}

TEST_F(MemcachedLossTest, WaitersComeBackAfterARestart) {
  MemcachedServer server;
  const Client first = connect(server);
  const Client second = connect(server);
  auto held = first.mutex("orders").acquire({.ttl = kTtl});
  ASSERT_TRUE(held);
  auto waits = std::async(std::launch::async,
                          [&] { return second.mutex("orders").acquire({.wait = 30s}); });
  ASSERT_TRUE(eventually([&] {
    const auto info = first.inspect("orders");
    return info && *info && (*info)->waiters.size() == 1;
  }));
  server.kill9();
  server.start();
  const auto next = waits.get();
  ASSERT_TRUE(next) << next.error().message();
  EXPECT_TRUE(next->held());
}

TEST_F(MemcachedLossTest, FencedIsNotPromised) {
  const MemcachedServer server;
  EXPECT_FALSE(connect(server).guarantees().fenced);
}

}  // namespace
}  // namespace holdfast
