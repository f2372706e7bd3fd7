// A client of redis+cluster://: which servers it asks, and what it takes for an answer.
#include <fstream>
#include <future>

#include "holdfast/latch.h"
#include "tests/faults/redis_harness.h"
#include "tests/support/eventually.h"
#include "tests/support/redis_cluster.h"
#include "tests/support/tls_files.h"

namespace holdfast::faults {
namespace {

using support::eventually;
using support::RedisCluster;

std::int64_t scripts_at(RedisServer& server) {
  return server.command_count("evalsha") + server.command_count("eval");
}

// Requests fail while nobody serves the slot.
bool renews(Lease& lease) {
  return eventually([&] { return !lease.held() || lease.renew().has_value(); }) && lease.held();
}

// The line of the store's page, with the rights that its page on clusters adds.
std::string documented_user() {
  std::ifstream page(HOLDFAST_REDIS_PAGE);
  for (std::string line; std::getline(page, line);) {
    const std::string begin = "ACL SETUSER ";
    if (line.rfind(begin, 0) != 0) continue;
    return line.substr(begin.size()) +
           " +asking +cluster|nodes +spublish +ssubscribe +sunsubscribe";
  }
  throw std::runtime_error("the page has no line with rights");
}

class RedisClusterClientTest : public RedisFaults {
 protected:
  // With replicas, and shared by the tests that change no roles.
  static RedisCluster& cluster() {
    if (shared_ == nullptr) {
      shared_ = std::make_unique<RedisCluster>(support::ClusterOptions{.replicas = 1});
    }
    return *shared_;
  }
  static void TearDownTestSuite() { shared_.reset(); }

  static std::size_t owner_of(RedisCluster& redis, const std::string& name) {
    return redis.owner(redis.slot_of(key_of(name)));
  }
  // A name with this beginning, in a slot of this node.
  static std::string name_at(RedisCluster& redis, std::size_t node, const std::string& begin) {
    for (int i = 0;; ++i) {
      std::string name = begin + std::to_string(i);
      if (owner_of(redis, name) == node) return name;
    }
  }

 private:
  static std::unique_ptr<RedisCluster> shared_;
};

std::unique_ptr<RedisCluster> RedisClusterClientTest::shared_;

TEST_F(RedisClusterClientTest, LocksOfAllNodesAreTakenTogetherAndListed) {
  RedisCluster& redis = cluster();
  Peer one(redis.url("ns=together"));
  EXPECT_FALSE(one.client().guarantees().multi);
  std::vector<LockRequest> wanted;
  for (int i = 0; i < 12; ++i) wanted.push_back({"m" + std::to_string(100 + i)});
  auto all = one.client().acquire_all(wanted, {.wait = 5s, .ttl = 30s});
  ASSERT_TRUE(all) << all.error().message();
  EXPECT_EQ(all->size(), 12U);
  const auto listed = one.client().list("m");
  ASSERT_TRUE(listed) << listed.error().message();
  ASSERT_EQ(listed->size(), 12U);
  EXPECT_EQ(listed->front().name, "m100");
  EXPECT_EQ(listed->back().name, "m111");
  EXPECT_EQ(one.client().list("m", 5)->size(), 5U);
  EXPECT_TRUE(all->release());
  EXPECT_TRUE(one.client().list("m")->empty());
}

TEST_F(RedisClusterClientTest, AGrantIsPushedOnAShardedChannelOfItsSlot) {
  RedisCluster& redis = cluster();
  Peer one(redis.url());
  Peer other(redis.url());
  Lease lease = one.hold("pushed", 30s);
  Waiter waiter(other, "pushed", 30s);
  waiter.await_queued();
  RedisServer& owner = redis.owner_of(key_of("pushed"));
  EXPECT_TRUE(eventually([&] {
    return owner.must({"PUBSUB", "SHARDCHANNELS", "hf1:@*"}).elements.size() >= 2;
  })) << "one for each client";
  const auto before = owner.command_count("spublish");
  ASSERT_TRUE(lease.release());
  EXPECT_TRUE(waiter.grant().release());
  EXPECT_EQ(owner.command_count("spublish"), before + 1);
  EXPECT_EQ(owner.command_count("publish"), 0);
}

TEST_F(RedisClusterClientTest, AValueIsToldToItsWatchers) {
  RedisCluster& redis = cluster();
  Peer one(redis.url());
  Peer other(redis.url());
  Latch opens = one.client().latch("opened", 1);
  auto waits = std::async(std::launch::async, [&] {
    return other.client().latch("opened", 1).wait({.wait = 20s});
  });
  RedisServer& owner = redis.owner_of(key_of("opened"));
  EXPECT_TRUE(eventually([&] {
    return !owner.must({"PUBSUB", "SHARDCHANNELS", "hf1:{*}:v"}).elements.empty();
  }));
  ASSERT_TRUE(opens.count_down());
  EXPECT_TRUE(waits.get());
}

TEST_F(RedisClusterClientTest, AReplicaThatDoesNotConfirmGrantsNothingInItsSlots) {
  RedisCluster& redis = cluster();
  Peer one(redis.url("replicas=1&replicas_timeout=300ms"));
  const std::string here = name_at(redis, 0, "confirmed");
  const std::string there = name_at(redis, 1, "confirmed");
  EXPECT_TRUE(one.hold(here, 30s).release());
  Lease lease = one.hold(there, 30s);
  redis.pause(redis.replica_of(0));
  const Error refused = one.refusal(here);
  EXPECT_EQ(refused.code(), Errc::kUnavailable) << refused.message();
  EXPECT_NE(refused.message().find("did not confirm it"), std::string::npos) << refused.message();
  EXPECT_TRUE(lease.renew()) << "the others go on";
  EXPECT_TRUE(lease.release());
  redis.resume(redis.replica_of(0));
  EXPECT_TRUE(eventually([&] {
    const auto again = one.client().mutex(here).try_acquire();
    return again && *again;
  }));
}

TEST_F(RedisClusterClientTest, ANodeThatIsPausedDelaysNoLockOfTheOthers) {
  RedisCluster& redis = cluster();
  Peer one(redis.url());
  const std::string here = name_at(redis, 0, "p");
  const std::string there = name_at(redis, 1, "p");
  const std::string beside = name_at(redis, 2, "p");
  Lease stuck = one.hold(here, 60s);
  Lease lease = one.hold(there, 3s);
  LossWatch loss(lease);
  redis.pause(0);
  // Long enough for the lease of the other node to need several renewals.
  const auto until = std::chrono::steady_clock::now() + 6s;
  while (std::chrono::steady_clock::now() < until) {
    ASSERT_TRUE(one.hold(beside, 10s).release());
    std::this_thread::sleep_for(100ms);
  }
  EXPECT_TRUE(lease.held()) << one.journal().all();
  EXPECT_FALSE(loss.told());
  redis.resume(0);
  EXPECT_TRUE(renews(stuck));
  EXPECT_TRUE(stuck.release());
  EXPECT_TRUE(lease.release());
}

TEST_F(RedisClusterClientTest, AUserWithTheRightsOfThePageIsEnough) {
  RedisCluster redis({.replicas = 0,
                      .server = {.users = {"default off", documented_user()}}});
  const std::string url = "redis+cluster://holdfast:SECRET@" + redis.hosts();
  Peer one(url);
  Peer other(url);
  Lease lease = one.hold("a", 30s);
  Waiter waiter(other, "a", 30s);
  waiter.await_queued();
  ASSERT_TRUE(lease.release());
  EXPECT_TRUE(waiter.grant().release());
  EXPECT_TRUE(one.client().list());
  const auto wrong = Client::connect("redis+cluster://holdfast:guess@" + redis.hosts());
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code(), Errc::kPermissionDenied) << wrong.error().message();
  EXPECT_EQ(wrong.error().message().find("guess"), std::string::npos);
}

TEST_F(RedisClusterClientTest, OverTlsEveryNodeIsAskedOnItsTlsPort) {
  RedisCluster redis({.server = {.tls = support::RedisTls::kServerOnly,
                                 .config = {"tls-cluster yes", "tls-replication yes"}}});
  const std::string node = "127.0.0.1:" + std::to_string(redis.node(0).tls_port());
  Peer one("rediss+cluster://" + node + "?tls_ca=" + support::tls_files().ca);
  for (std::size_t i = 0; i < redis.primaries(); ++i) {
    const std::string name = name_at(redis, i, "tls");
    Lease lease = one.hold(name, 30s);
    EXPECT_TRUE(lease.renew());
    EXPECT_TRUE(lease.release());
  }
  const auto foreign =
      Client::connect("rediss+cluster://" + node + "?tls_ca=" + support::tls_files().foreign_ca);
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().code(), Errc::kPermissionDenied) << foreign.error().message();
}

TEST_F(RedisClusterClientTest, AServerThatIsNoNodeIsSaidToBeNone) {
  RedisServer single;
  const auto client =
      Client::connect("redis+cluster://127.0.0.1:" + std::to_string(single.port()));
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code(), Errc::kInvalidArgument) << client.error().message();
  EXPECT_NE(client.error().message().find("use redis://"), std::string::npos)
      << client.error().message();
}

TEST_F(RedisClusterClientTest, OneNodeOfTheUrlIsEnough) {
  RedisCluster& redis = cluster();
  RedisServer gone;
  const std::string dead = "127.0.0.1:" + std::to_string(gone.port());
  gone.kill9();
  Peer one("redis+cluster://" + dead + ",127.0.0.1:" +
           std::to_string(redis.node(redis.replica_of(2)).port()));  // A replica knows it, too.
  for (const char* name : {"a", "b", "c", "d"}) EXPECT_TRUE(one.hold(name, 10s).release());
}

TEST_F(RedisClusterClientTest, DoctorLooksAtEveryNode) {
  RedisCluster& redis = cluster();
  Peer one(redis.url());
  const auto report = one.client().doctor();
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_TRUE(report->healthy());
  redis.node(1).config_set("maxmemory-policy", "allkeys-lru");
  const auto worse = one.client().doctor();
  ASSERT_TRUE(worse) << worse.error().message();
  EXPECT_FALSE(worse->healthy()) << "one node evicts";
  redis.node(1).config_set("maxmemory-policy", "noeviction");
}

// The old primary is only paused. It still believes that it is one when it goes on.
TEST_F(RedisClusterClientTest, APausedPrimaryThatComesBackIsNotUsed) {
  RedisCluster redis({.replicas = 1, .node_timeout = 2s, .full_coverage = false});
  const std::string name = "a";
  const int slot = redis.slot_of(key_of(name));
  const std::size_t before = redis.owner(slot);
  Peer one(redis.url());
  Peer other(redis.url());
  Lease lease = one.hold(name, 60s);
  Waiter waiter(other, name, 60s);
  waiter.await_queued();
  redis.await_replicas(before);
  RedisServer& old = redis.node(before);
  redis.pause(before);
  redis.await_other_owner(slot, before);
  EXPECT_TRUE(renews(lease)) << one.journal().all();
  EXPECT_TRUE(one.journal().wait_for("serves no slots any more", 20s));
  EXPECT_TRUE(other.journal().wait_for("serves no slots any more", 20s));

  redis.resume(before);
  const auto sent = scripts_at(old);
  ASSERT_TRUE(eventually([&] { return lease.release().has_value(); }));
  Lease next = waiter.grant();
  EXPECT_GT(next.token(), lease.token());
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(next.renew());
  EXPECT_EQ(scripts_at(old), sent) << "the old primary was still asked";
  EXPECT_TRUE(next.release());
}

}  // namespace
}  // namespace holdfast::faults
