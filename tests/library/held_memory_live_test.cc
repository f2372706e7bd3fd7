// Each case counts what one more held lock takes of the client's heap on a store, so that the
// figures of docs/guide/choosing.md cannot grow unnoticed.
//
// HOLDFAST_HELD_LOCKS says how many locks are held when the count begins, and so many are taken
// beside them (1,000 by default). Each case prints its figure.
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "tests/support/consul_server.h"
#include "tests/support/etcd_server.h"
#include "tests/support/eventually.h"
#include "tests/support/holdfast_server.h"
#include "tests/support/mariadb_server.h"
#include "tests/support/memcached_server.h"
#include "tests/support/postgres_server.h"
#include "tests/support/temp_folder.h"
#include "tests/support/url_text.h"
#include "tests/support/zookeeper_server.h"
#ifdef HOLDFAST_TEST_REDIS
#include "tests/support/redis_cluster.h"
#include "tests/support/redis_sentinels.h"
#include "tests/support/redis_server.h"
#include "tests/support/redlock_cluster.h"
#endif

namespace holdfast::testing {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

// Composites take more, because they know what each of their stores was told.
constexpr double kInTheClient = 1024;
constexpr double kInTheMachine = 250;  // On stores in the client's own process.

// Chunks in use, with what the allocator adds to each.
double heap() { return static_cast<double>(::mallinfo2().uordblks); }

// Requests that are under way take memory for a moment: renewals, and at ZooKeeper what a holder
// notes behind its grant. So the least reading counts, once there was no lower one for a while.
double calm_heap() {
  double least = heap();
  for (int since_least = 0; since_least < 300; ++since_least) {
    std::this_thread::sleep_for(2ms);
    const double now = heap();
    if (now < least) since_least = 0;
    least = std::min(least, now);
  }
  return least;
}

class HeldMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(HOLDFAST_SANITIZED)
    GTEST_SKIP() << "SKIPPED: the sanitizer's own allocator tells nothing";
#endif
  }

  void expect_at_most(double bound, const std::string& url, std::size_t least = 1000) {
    const char* text = std::getenv("HOLDFAST_HELD_LOCKS");
    const std::size_t count = text == nullptr ? least : std::strtoul(text, nullptr, 10);
    auto client = Client::connect(url);
    ASSERT_TRUE(client) << client.error();
    std::vector<std::vector<Lease>> leases(kThreads);
    for (auto& each : leases) each.reserve(2U * count / kThreads);
    // Composites grant nothing at first, until they know that nothing of earlier is left.
    ASSERT_TRUE(support::eventually(
        [&] { return client->mutex("first").try_acquire({.ttl = ttl_}).has_value(); }));
    hold(*client, leases, count, ttl_);
    const double before = calm_heap();
    hold(*client, leases, count, ttl_);
    const double bytes = (calm_heap() - before) / static_cast<double>(count);
    std::printf("%.0f bytes for each held lock\n", bytes);
    EXPECT_LE(bytes, bound);
    EXPECT_GT(bytes, 100) << "the allocator told nothing";
    leases.clear();
    EXPECT_TRUE(client->close(60s));
  }

  milliseconds ttl_ = 1h;  // Long, so that renewals do not disturb the count.

 private:
  static constexpr std::size_t kThreads = 8;  // A server answers several faster than one.

  // A name of this length needs no allocation of its own.
  static void hold(Client& client, std::vector<std::vector<Lease>>& leases, std::size_t count,
                   milliseconds ttl) {
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&client, &mine = leases[thread], thread, count, ttl] {
        for (std::size_t i = 0; i < count / kThreads; ++i) {
          const std::size_t number = mine.size() * kThreads + thread;
          auto lease = client.mutex("held/" + std::to_string(number)).try_acquire({.ttl = ttl});
          ASSERT_TRUE(lease) << lease.error();
          ASSERT_TRUE(*lease);
          mine.push_back(*std::move(*lease));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

TEST_F(HeldMemoryTest, InMemory) { expect_at_most(kInTheClient + kInTheMachine, "memory:"); }

#ifdef HOLDFAST_HAVE_SQLITE
TEST_F(HeldMemoryTest, OnSqlite) {
  const support::TempFolder folder("held");
  expect_at_most(kInTheClient, "sqlite://" + folder.file("locks.db"));
}
#endif

#ifdef HOLDFAST_TEST_REDIS
TEST_F(HeldMemoryTest, OnRedis) {
  HOLDFAST_NEEDS_REDIS();
  const support::RedisServer server;
  expect_at_most(kInTheClient, server.url());
}

TEST_F(HeldMemoryTest, OnRedisCluster) {
  HOLDFAST_NEEDS_REDIS();
  const support::RedisCluster servers;
  // A few more than on one server, because each has connections with buffers of their own.
  expect_at_most(kInTheClient, servers.url(), 4000);
}

TEST_F(HeldMemoryTest, OnRedisWithSentinels) {
  HOLDFAST_NEEDS_REDIS();
  const support::RedisSentinels servers;
  expect_at_most(kInTheClient, servers.url());
}

TEST_F(HeldMemoryTest, OnRedlock) {
  HOLDFAST_NEEDS_REDIS();
  const support::RedlockCluster servers;
  ttl_ = 10s;  // So long it grants nothing at first.
  expect_at_most(2 * kInTheClient, servers.url("longest_ttl=10s"));
}
#endif

#if defined(HOLDFAST_TEST_REDIS) && defined(HOLDFAST_HAVE_ETCD)
TEST_F(HeldMemoryTest, OnHybrid) {
  HOLDFAST_NEEDS_REDIS();
  HOLDFAST_NEEDS_ETCD();
  const support::RedisServer filter;
  const support::EtcdCluster arbiter;
  expect_at_most(2.5 * kInTheClient, "hybrid:?filter=" + support::percent_encoded(filter.url()) +
                                         "&arbiter=" + support::percent_encoded(arbiter.url()));
}

TEST_F(HeldMemoryTest, OnFailover) {
  HOLDFAST_NEEDS_REDIS();
  HOLDFAST_NEEDS_ETCD();
  const support::RedisServer first;
  const support::EtcdCluster last;
  expect_at_most(1.5 * kInTheClient, "failover:?chain=" + support::percent_encoded(first.url()) +
                                         "&chain=" + support::percent_encoded(last.url()) +
                                         "&authority=3s&settled=1s");
}
#endif

#ifdef HOLDFAST_HAVE_HOLDFAST
TEST_F(HeldMemoryTest, OnTheLockService) {
  if (const auto why = support::HoldfastServer::unavailable()) GTEST_SKIP() << "SKIPPED: " << *why;
  const support::HoldfastServer server({.in_memory = true});
  expect_at_most(kInTheClient, server.url());
}
#endif

#ifdef HOLDFAST_HAVE_ZOOKEEPER
TEST_F(HeldMemoryTest, OnZookeeper) {
  HOLDFAST_NEEDS_ZOOKEEPER();
  const support::ZookeeperServer server;
  // The client remembers the last 4,096 names besides, however many it holds.
  expect_at_most(kInTheClient, server.url(), 4400);
}
#endif

#ifdef HOLDFAST_HAVE_ETCD
TEST_F(HeldMemoryTest, OnEtcd) {
  HOLDFAST_NEEDS_ETCD();
  const support::EtcdCluster server;
  expect_at_most(kInTheClient, server.url());
}
#endif

#ifdef HOLDFAST_HAVE_CONSUL
TEST_F(HeldMemoryTest, OnConsul) {
  HOLDFAST_NEEDS_CONSUL();
  const support::ConsulServer server({.dev = true});
  expect_at_most(kInTheClient, server.url());
}
#endif

#ifdef HOLDFAST_HAVE_POSTGRES
TEST_F(HeldMemoryTest, OnPostgres) {
  HOLDFAST_NEEDS_POSTGRES();
  const support::PostgresServer server;
  expect_at_most(kInTheClient, server.url());
}
#endif

#ifdef HOLDFAST_HAVE_MYSQL
TEST_F(HeldMemoryTest, OnMysql) {
  HOLDFAST_NEEDS_MARIADB();
  const support::MariadbServer server;
  expect_at_most(kInTheClient, server.url());
}
#endif

#ifdef HOLDFAST_HAVE_MEMCACHED
TEST_F(HeldMemoryTest, OnMemcached) {
  HOLDFAST_NEEDS_MEMCACHED();
  const support::MemcachedServer server;
  expect_at_most(kInTheClient, server.url());
}
#endif

}  // namespace
}  // namespace holdfast::testing
