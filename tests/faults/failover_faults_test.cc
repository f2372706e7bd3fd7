// A chain of a real Redis and a real etcd, which keeps the record: the Redis dies, forgets, comes
// back, is away for one client only; a switcher is killed in mid-drain; two switch at once.
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "holdfast/mutex.h"
#include "holdfast/stores.h"
#include "tests/support/eventually.h"
#include "tests/support/child_process.h"
#include "tests/support/etcd_server.h"
#include "tests/support/redis_server.h"
#include "tests/support/url_text.h"

namespace holdfast::testing {
namespace {

using namespace std::chrono_literals;
using support::Memory;
using Clock = std::chrono::steady_clock;

support::EtcdCluster& last_store() {
  static support::EtcdCluster one;
  return one;
}

class Servers {
 public:
  Servers() : redis({.users = {"alice on >secret ~* &* +@all"}}) {}

  std::string url(const std::string& login = {}) const {
    const std::string first = "redis://" + login + "127.0.0.1:" + std::to_string(redis.port());
    return "failover:?chain=" + support::percent_encoded(first) + "&chain=" +
           support::percent_encoded(last_store().url("/" + place_ + "?session=2s")) +
           "&authority=2s&patience=1s&settled=1s";
  }
  ChainStatus status() const { return chain_status(url()).value(); }
  // Waits for a state of the record; fails after a while.
  ChainStatus await(const std::function<bool(const ChainStatus&)>& wanted) const {
    ChainStatus seen;
    for (const auto until = Clock::now() + 40s; Clock::now() < until;) {
      const auto now = chain_status(url());
      if (now) seen = *now;
      if (now && wanted(seen)) return seen;
      std::this_thread::sleep_for(20ms);
    }
    ADD_FAILURE() << "the chain is still at " << seen.store << ", epoch " << seen.epoch;
    return seen;
  }

  support::RedisServer redis;

 private:
  static inline int last_ = 0;
  const std::string place_ = "chain" + std::to_string(++last_);
};

Client connect(const std::string& url) {
  ClientOptions options;
  options.default_ttl = 2s;
  auto client = Client::connect(url, options);
  if (!client) throw std::runtime_error(client.error().message());
  return *std::move(client);
}

// Takes one lock again and again, and checks that nobody else is inside and that tokens grow.
class Crowd {
 public:
  Crowd(const std::string& url, int clients) {
    for (int i = 0; i < clients; ++i) clients_.push_back(connect(url));
    for (Client& client : clients_) {
      threads_.emplace_back([this, &client] {
        while (!stop_) work(client);
      });
    }
  }
  ~Crowd() {
    stop_ = true;
    for (auto& thread : threads_) thread.join();
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  // Returns when so many more were granted.
  void await_grants(int more) {
    const int wanted = grants_ + more;
    const auto until = Clock::now() + 40s;
    while (grants_ < wanted && Clock::now() < until) std::this_thread::sleep_for(5ms);
    EXPECT_GE(grants_.load(), wanted) << "no more grants";
  }
  Token last() const {
    const std::lock_guard lock(mutex_);
    return last_;
  }

 private:
  void work(Client& client) {
    AcquireOptions options;
    options.wait = 2s;
    const auto lease = client.mutex("orders").acquire(options);
    if (!lease) {
      // Contention and an outage have names of their own.
      const Errc code = lease.error().code();
      EXPECT_TRUE(code == Errc::kTimedOut || code == Errc::kUnavailable ||
                  code == Errc::kOutcomeUnknown)
          << lease.error().message();
      std::this_thread::sleep_for(10ms);
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      EXPECT_GT(lease->token(), last_);
      last_ = lease->token();
    }
    // Whoever is inside believes for as long as held() says so, and no longer.
    EXPECT_TRUE(inside_.exchange(&*lease) == nullptr) << "two are inside";
    const auto until = Clock::now() + 3ms;
    while (lease->held() && Clock::now() < until) std::this_thread::sleep_for(1ms);
    inside_ = nullptr;
    ++grants_;
  }

  std::vector<Client> clients_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stop_{false};
  std::atomic<const Lease*> inside_{nullptr};
  std::atomic<int> grants_{0};
  mutable std::mutex mutex_;
  Token last_{};
};

#define HOLDFAST_NEEDS_BOTH() \
  HOLDFAST_NEEDS_ETCD();      \
  HOLDFAST_NEEDS_REDIS()

TEST(FailoverFaultsTest, ADeadStoreIsLeftAndNotReturnedToUntilAnOperatorSaysSo) {
  HOLDFAST_NEEDS_BOTH();
  Servers servers;
  Crowd crowd(servers.url(), 3);
  crowd.await_grants(20);
  const Token before = crowd.last();
  servers.redis.kill9();
  const ChainStatus after =
      servers.await([](const ChainStatus& now) { return now.place == 2 && !now.draining; });
  crowd.await_grants(20);
  EXPECT_EQ(crowd.last().epoch, after.epoch);
  EXPECT_GT(crowd.last(), before);
  // The weak store comes back, with nothing in its memory: it is not used.
  servers.redis.start();
  crowd.await_grants(50);
  EXPECT_EQ(servers.status().epoch, after.epoch);
  const auto returned = switch_chain(servers.url(), 1);
  ASSERT_TRUE(returned) << returned.error().message();
  EXPECT_EQ(returned->place, 1U);
  crowd.await_grants(20);
  EXPECT_GE(crowd.last().epoch, returned->epoch);
}

TEST(FailoverFaultsTest, AStoreThatForgotEverythingIsDrainedBeforeItIsUsedAgain) {
  HOLDFAST_NEEDS_BOTH();
  Servers servers;
  Crowd crowd(servers.url(), 3);
  crowd.await_grants(20);
  const std::uint32_t before = servers.status().epoch;
  servers.redis.restart(Memory::kLost);
  servers.await([&](const ChainStatus& now) { return now.epoch > before && !now.draining; });
  crowd.await_grants(20);
  EXPECT_GT(crowd.last().epoch, before);
}

// An asymmetric partition: one client is cut off from the Redis, and reaches the last store.
TEST(FailoverFaultsTest, OneClientsOutageSwitchesNothing) {
  HOLDFAST_NEEDS_BOTH();
  Servers servers;
  Crowd crowd(servers.url(), 2);
  crowd.await_grants(10);
  const std::uint32_t before = servers.status().epoch;
  Client alice = connect(servers.url("alice:secret@"));
  ASSERT_TRUE(alice.mutex("hers").acquire({.wait = 10s}));
  static_cast<void>(servers.redis.command({"ACL", "SETUSER", "alice", "off"}));
  static_cast<void>(servers.redis.command({"CLIENT", "KILL", "USER", "alice"}));
  const auto refused = alice.mutex("hers").acquire({.wait = 5s});
  EXPECT_FALSE(refused);
  // Far longer than the patience and the least time between two switches.
  std::this_thread::sleep_for(3s);
  crowd.await_grants(20);
  EXPECT_EQ(servers.status().epoch, before);
  EXPECT_EQ(servers.status().place, 1U);
}

TEST(FailoverFaultsTest, ASwitcherThatIsKilledInMidDrainIsReplaced) {
  HOLDFAST_NEEDS_BOTH();
  Servers servers;
  {
    Crowd crowd(servers.url(), 2);
    crowd.await_grants(10);
  }
  support::ChildProcess switcher(
      {.arguments = {HOLDFAST_PROGRAM, "failover", "switch", "--store", servers.url()}});
  const auto marked = servers.await([](const ChainStatus& now) { return now.draining; });
  switcher.kill9();
  EXPECT_TRUE(servers.status().draining);
  Crowd crowd(servers.url(), 2);
  const auto after = servers.await([](const ChainStatus& now) { return !now.draining; });
  EXPECT_GT(after.epoch, marked.epoch) << "an epoch of its own, after a drain of its own";
  crowd.await_grants(10);
}

TEST(FailoverFaultsTest, TwoSwitchersAtOnceLeaveOneChain) {
  HOLDFAST_NEEDS_BOTH();
  Servers servers;
  Crowd crowd(servers.url(), 2);
  crowd.await_grants(10);
  Result<ChainStatus> one = ChainStatus();
  Result<ChainStatus> two = ChainStatus();
  std::thread first([&] { one = switch_chain(servers.url(), 2); });
  std::thread second([&] { two = switch_chain(servers.url(), 2); });
  first.join();
  second.join();
  ASSERT_TRUE(one && two);
  EXPECT_EQ(one->place, 2U);
  EXPECT_EQ(two->place, 2U);
  crowd.await_grants(20);
  EXPECT_EQ(servers.status().place, 2U);
}

TEST(FailoverFaultsTest, AnotherChainsStoreIsRefused) {
  HOLDFAST_NEEDS_BOTH();
  Servers servers;
  Client ours = connect(servers.url());
  ASSERT_TRUE(ours.mutex("a").acquire({.wait = 20s}));
  // Other clients, with the same Redis and a record elsewhere.
  const std::string other =
      "failover:?chain=" + support::percent_encoded(servers.redis.url()) + "&chain=" +
      support::percent_encoded(last_store().url("/elsewhere?session=2s")) + "&authority=2s";
  Client theirs = connect(other);
  const auto lease = theirs.mutex("a").acquire({.wait = 12s});
  if (lease) {
    EXPECT_EQ(chain_status(other)->place, 2U) << "they use the store that is theirs alone";
  }
  EXPECT_EQ(servers.status().place, 1U);
  EXPECT_TRUE(ours.mutex("a").acquire({.wait = 5s}));
}

TEST(FailoverFaultsTest, WithoutTheLastStoreNothingIsHeldForLong) {
  HOLDFAST_NEEDS_BOTH();
  Servers servers;
  Client client = connect(servers.url());
  const auto lease = client.mutex("a").acquire({.wait = 20s});
  ASSERT_TRUE(lease) << lease.error().message();
  last_store().pause();
  EXPECT_TRUE(support::eventually([&] { return !lease->held(); }, 20s));
  last_store().resume();
  EXPECT_TRUE(client.mutex("a").acquire({.wait = 20s}));
}

}  // namespace
}  // namespace holdfast::testing
