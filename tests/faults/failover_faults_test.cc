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
#include "tests/faults/crowd.h"
#include "tests/support/child_process.h"
#include "tests/support/etcd_server.h"
#include "tests/support/eventually.h"
#include "tests/support/fault_proxy.h"
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
    return url_of("redis://" + login + "127.0.0.1:" + std::to_string(redis.port()), last());
  }
  static std::string url_of(const std::string& first, const std::string& last) {
    return "failover:?chain=" + support::percent_encoded(first) +
           "&chain=" + support::percent_encoded(last) + "&authority=2s&patience=1s&settled=1s";
  }
  std::string last() const { return last_store().url("/" + place_ + "?session=2s"); }
  std::string last_through(std::uint16_t port) const {
    return "etcd://127.0.0.1:" + std::to_string(port) + "/" + place_ + "?session=2s";
  }
  // For clients that reach the stores at other addresses.
  std::string named(const std::string& first, const std::string& last) const {
    return url_of(first, last) + "&name=" + place_;
  }
  ChainStatus named_status() const { return chain_status(named(redis.url(), last())).value(); }
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

Client connect(const std::string& url) { return connect_with_ttl(url, 2s); }

#define HOLDFAST_NEEDS_BOTH() \
  HOLDFAST_NEEDS_ETCD();      \
  HOLDFAST_NEEDS_REDIS()

TEST(FailoverFaultsTest, ADeadStoreIsLeftAndNotReturnedToUntilAnOperatorSaysSo) {
  HOLDFAST_NEEDS_BOTH();
  Servers servers;
  Crowd crowd(servers.url(), 3, {});
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
  Crowd crowd(servers.url(), 3, {});
  crowd.await_grants(20);
  const std::uint32_t before = servers.status().epoch;
  servers.redis.restart(Memory::kLost);
  servers.await([&](const ChainStatus& now) { return now.epoch > before && !now.draining; });
  crowd.await_grants(20);
  EXPECT_GT(crowd.last().epoch, before);
}

// The same without a restart, so no connection ends: each grant is checked all the same.
TEST(FailoverFaultsTest, AStoreThatIsFlushedGrantsNothingInItsOldEpoch) {
  HOLDFAST_NEEDS_BOTH();
  Servers servers;
  Client alice = connect(servers.url());
  Crowd crowd(servers.url(), 3, {});
  crowd.await_grants(20);
  for (int i = 0; i < 2; ++i) {
    const auto held = alice.mutex("hers").acquire({.wait = 20s});
    ASSERT_TRUE(held) << held.error().message();
    const std::uint32_t before = servers.status().epoch;
    servers.redis.flushall();
    // Her lock is free in the Redis, and she believes: nobody else may be told that he holds it.
    const Client bob = connect(servers.url());
    while (held->held()) {
      const auto tried = bob.mutex("hers").try_acquire();
      ASSERT_FALSE(tried && *tried && held->held()) << "two hold it";
      std::this_thread::sleep_for(5ms);
    }
    servers.await([&](const ChainStatus& now) { return now.epoch > before && !now.draining; });
    crowd.await_grants(20);
  }
}

// An asymmetric partition: one client is cut off from the Redis, and reaches the last store.
TEST(FailoverFaultsTest, OneClientsOutageSwitchesNothing) {
  HOLDFAST_NEEDS_BOTH();
  Servers servers;
  Crowd crowd(servers.url(), 2, {});
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

// The same by the network: her requests arrive at the Redis, and the answers do not come back.
TEST(FailoverFaultsTest, OneClientsLostAnswersSwitchNothing) {
  HOLDFAST_NEEDS_BOTH();
  Servers servers;
  support::FaultProxy way({.server_port = servers.redis.port()});
  Crowd crowd(servers.named(servers.redis.url(), servers.last()), 2, {});
  Client alice = connect(servers.named(servers.redis.url({.port = way.port()}), servers.last()));
  crowd.await_grants(10);
  const std::uint32_t before = servers.named_status().epoch;
  const auto lease = alice.mutex("hers").acquire({.wait = 20s});
  ASSERT_TRUE(lease) << lease.error().message();
  way.add({.kind = support::Fault::Kind::kBlackhole, .direction = support::Direction::kToClient});
  EXPECT_TRUE(support::eventually([&] { return !lease->held(); })) << "no renewal is answered";
  EXPECT_FALSE(alice.mutex("hers").acquire({.wait = 3s}));
  crowd.await_grants(20);
  EXPECT_EQ(servers.named_status().epoch, before);
  way.remove_all();
  EXPECT_TRUE(alice.mutex("hers").acquire({.wait = 20s}));
}

// She reaches the Redis, and not the last store: her authority ends, and the others go on.
TEST(FailoverFaultsTest, OneClientWithoutTheLastStoreHoldsNothingForLong) {
  HOLDFAST_NEEDS_BOTH();
  Servers servers;
  support::FaultProxy way({.server_port = last_store().port()});
  Crowd crowd(servers.named(servers.redis.url(), servers.last()), 2, {});
  crowd.await_grants(10);
  const std::uint32_t before = servers.named_status().epoch;
  Client alice = connect(servers.named(servers.redis.url(), servers.last_through(way.port())));
  const auto lease = alice.mutex("hers").acquire({.wait = 20s});
  ASSERT_TRUE(lease) << lease.error().message();
  way.add({.kind = support::Fault::Kind::kBlackhole, .direction = support::Direction::kToServer});
  way.add({.kind = support::Fault::Kind::kBlackhole, .direction = support::Direction::kToClient});
  EXPECT_TRUE(support::eventually([&] { return !lease->held(); })) << "her authority has ended";
  EXPECT_FALSE(alice.mutex("hers").acquire({.wait = 1s}));
  crowd.await_grants(20);
  EXPECT_EQ(servers.named_status().epoch, before);
}

TEST(FailoverFaultsTest, ASwitcherThatIsKilledInMidDrainIsReplaced) {
  HOLDFAST_NEEDS_BOTH();
  Servers servers;
  {
    Crowd crowd(servers.url(), 2, {});
    crowd.await_grants(10);
  }
  support::ChildProcess switcher(
      {.arguments = {HOLDFAST_PROGRAM, "failover", "switch", "--store", servers.url()}});
  const auto marked = servers.await([](const ChainStatus& now) { return now.draining; });
  switcher.kill9();
  EXPECT_TRUE(servers.status().draining);
  Crowd crowd(servers.url(), 2, {});
  const auto after = servers.await([](const ChainStatus& now) { return !now.draining; });
  EXPECT_GT(after.epoch, marked.epoch) << "an epoch of its own, after a drain of its own";
  crowd.await_grants(10);
}

// It stands still for longer than its leases, and goes on: what it would write is refused.
TEST(FailoverFaultsTest, ASwitcherThatStandsStillInMidDrainChangesNothingLater) {
  HOLDFAST_NEEDS_BOTH();
  Servers servers;
  Crowd crowd(servers.url(), 2, {});
  crowd.await_grants(10);
  support::ChildProcess switcher(
      {.arguments = {HOLDFAST_PROGRAM, "failover", "switch", "--store", servers.url()}});
  const auto marked = servers.await([](const ChainStatus& now) { return now.draining; });
  switcher.pause();
  const auto after = servers.await(
      [&](const ChainStatus& now) { return !now.draining && now.epoch >= marked.epoch; });
  crowd.await_grants(10);
  switcher.resume();
  EXPECT_TRUE(switcher.wait());
  crowd.await_grants(20);
  EXPECT_GE(servers.status().epoch, after.epoch);
  EXPECT_FALSE(servers.status().draining);
}

TEST(FailoverFaultsTest, TwoSwitchersAtOnceLeaveOneChain) {
  HOLDFAST_NEEDS_BOTH();
  Servers servers;
  Crowd crowd(servers.url(), 2, {});
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
      "failover:?chain=" + support::percent_encoded(servers.redis.url()) +
      "&chain=" + support::percent_encoded(last_store().url("/elsewhere?session=2s")) +
      "&authority=2s";
  Client theirs = connect(other);
  const auto lease = theirs.mutex("a").acquire({.wait = 12s});
  if (lease) {
    EXPECT_EQ(chain_status(other)->place, 2U) << "they use the store that is theirs alone";
  }
  EXPECT_EQ(servers.status().place, 1U);
  EXPECT_TRUE(ours.mutex("a").acquire({.wait = 5s}));
}

// Her authority lease may be given back before its end, when she sees a switch begin. The switcher
// then waits for the chain's length, so her locks' leases must not be longer.
TEST(FailoverFaultsTest, ALongerAuthorityIsRefusedUntilTheChainIsSwitchedWithIt) {
  HOLDFAST_NEEDS_BOTH();
  Servers servers;
  ASSERT_TRUE(connect(servers.url()).mutex("a").acquire({.wait = 20s}));
  std::string longer = servers.url();
  longer.replace(longer.find("authority=2s"), 12, "authority=6s");
  const Client alice = connect_with_ttl(longer, 6s);
  const auto refused = alice.mutex("hers").try_acquire();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::kUnavailable);
  EXPECT_NE(refused.error().message().find("is of 2000 ms, and this client's of 6000 ms"),
            std::string::npos)
      << refused.error().message();
  const auto switched = switch_chain(longer, 2);
  ASSERT_TRUE(switched) << switched.error().message();
  EXPECT_TRUE(alice.mutex("hers").acquire({.wait = 20s}));
  EXPECT_TRUE(connect(servers.url()).mutex("a").acquire({.wait = 20s})) << "a shorter one fits";
}

// All locks would be lost for nothing, and a script that goes by the status would go on.
TEST(FailoverFaultsTest, AStoreThatIsAwayIsNotSwitchedTo) {
  HOLDFAST_NEEDS_BOTH();
  Servers servers;
  ASSERT_TRUE(connect(servers.url()).mutex("a").acquire({.wait = 20s}));
  const auto second = switch_chain(servers.url(), 2);
  ASSERT_TRUE(second) << second.error().message();
  const Client alice = connect(servers.url());
  const auto lease = alice.mutex("hers").acquire({.wait = 20s});
  ASSERT_TRUE(lease) << lease.error().message();
  servers.redis.kill9();
  const auto first = switch_chain(servers.url(), 1);
  ASSERT_FALSE(first) << "store " << first->place << " is used";
  EXPECT_EQ(first.error().code(), Errc::kUnavailable);
  EXPECT_NE(first.error().message().find("nothing was switched, because store 1"),
            std::string::npos)
      << first.error().message();
  EXPECT_EQ(servers.status().epoch, second->epoch);
  EXPECT_TRUE(lease->held());
}

// A Redis forgets values that nobody has used for a week. A chain that forgot its stamp would take
// all locks away, and one that forgot its record would begin anew.
TEST(FailoverFaultsTest, RecordAndStampHaveNoExpiry) {
  HOLDFAST_NEEDS_REDIS();
  Servers servers;
  support::RedisServer last;
  const std::string url = Servers::url_of(servers.redis.url(), last.url());
  ASSERT_TRUE(connect(url).mutex("a").acquire({.wait = 20s}));
  constexpr std::int64_t kNone = -1;
  EXPECT_EQ(servers.redis.command({"PTTL", "hf1:{../failover/stamp}:v"}).integer, kNone);
  EXPECT_EQ(last.command({"PTTL", "hf1:{../failover/record}:v"}).integer, kNone);
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
