// A fail-over under Sentinel, made with real servers: what must hold, and what may be lost.
#include "tests/faults/redis_harness.h"
#include "tests/support/eventually.h"
#include "tests/support/no_descriptors.h"
#include "tests/support/redis_sentinels.h"

namespace holdfast::faults {
namespace {

using support::RedisSentinels;

class RedisSentinelFaultsTest : public RedisFaults {
 protected:
  // Until the replicas have all that the primary has.
  static void await_replication(RedisSentinels& redis, std::size_t replicas = 2) {
    RedisServer& primary = redis.primary();
    primary.must({"SET", "mark", "1"});  // WAIT looks at what its own connection wrote last.
    const Reply reached = primary.command({"WAIT", std::to_string(replicas), "10000"});
    ASSERT_GE(reached.integer, static_cast<std::int64_t>(replicas));
  }
  // Requests fail while nobody is the primary.
  static bool renews(Lease& lease) {
    return support::eventually([&] { return !lease.held() || lease.renew().has_value(); }) &&
           lease.held();
  }
};

TEST_F(RedisSentinelFaultsTest, HoldersAndWaitersFollowTheKillOfThePrimary) {
  RedisSentinels redis;
  Peer one(redis.url());
  Peer other(redis.url());
  Lease lease = one.hold("a", 30s);
  LossWatch loss(lease);
  Waiter waiter(other, "a", 30s);
  waiter.await_queued();
  await_replication(redis);

  const std::size_t before = redis.primary_index();
  redis.server(before).kill9();
  redis.await_switch(before);

  EXPECT_TRUE(one.journal().wait_for("the primary is now", 20s)) << one.journal().all();
  // The replicas had the grant, so nothing is lost.
  EXPECT_TRUE(renews(lease)) << one.journal().all();
  EXPECT_TRUE(lease.held());
  EXPECT_FALSE(waiter.done_within(0ms)) << "two hold it";
  ASSERT_TRUE(lease.release());
  Lease next = waiter.grant();
  EXPECT_GT(next.token(), lease.token());
  EXPECT_FALSE(loss.told());
  EXPECT_TRUE(next.release());
}

TEST_F(RedisSentinelFaultsTest, WithoutDescriptorsAClientWaitsUntilThereAreSome) {
  RedisSentinels redis;
  Peer one(redis.url());
  Lease lease = one.hold("a", 60s);
  await_replication(redis);
  const std::size_t before = redis.primary_index();
  {
    const support::NoDescriptors none;
    redis.server(before).kill9();
    EXPECT_TRUE(one.journal().wait_for("the primary is now", 30s)) << one.journal().all();
  }
  EXPECT_TRUE(renews(lease)) << one.journal().all();
}

TEST_F(RedisSentinelFaultsTest, WithoutDescriptorsConnectingFails) {
  RedisSentinels redis;
  expect_connecting_fails_without_descriptors(redis.url("open_timeout=300ms"));
}

// The old primary is only paused. It still believes that it is one when it goes on.
TEST_F(RedisSentinelFaultsTest, APausedPrimaryThatComesBackIsNotUsed) {
  RedisSentinels redis;
  Peer one(redis.url());
  Peer other(redis.url());
  Lease lease = one.hold("a", 30s);
  Waiter waiter(other, "a", 30s);
  waiter.await_queued();
  await_replication(redis);
  const std::size_t before = redis.primary_index();
  RedisServer& old = redis.server(before);
  const auto scripts = [&old] { return old.command_count("evalsha") + old.command_count("eval"); };
  old.pause();
  redis.await_switch(before);
  EXPECT_TRUE(renews(lease)) << one.journal().all();
  EXPECT_TRUE(one.journal().wait_for("the primary is now", 20s));
  EXPECT_TRUE(other.journal().wait_for("the primary is now", 20s));

  old.resume();
  const auto sent = scripts();
  ASSERT_TRUE(lease.release());
  Lease next = waiter.grant();
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(next.renew());
    ASSERT_TRUE(one.hold("b", 10s).release());
  }
  EXPECT_EQ(scripts(), sent) << "the old primary was still asked";
  EXPECT_TRUE(next.release());
  // It becomes a replica, and gets what the new one has.
  EXPECT_TRUE(old.eventually(
      [](RedisServer& server) { return server.info("replication", "role") == "slave"; }));
}

TEST_F(RedisSentinelFaultsTest, ASecondSwitchIsFollowedToo) {
  RedisSentinels redis;
  Peer one(redis.url());
  Lease lease = one.hold("a", 30s);
  for (int i = 0; i < 2; ++i) {
    const std::size_t before = redis.primary_index();
    RedisSentinels::await_replicas(redis.server(before), 2);
    await_replication(redis);
    const Reply asked = redis.sentinel(0).command({"SENTINEL", "FAILOVER", RedisSentinels::kName});
    ASSERT_FALSE(asked.is_error()) << asked;
    redis.await_switch(before);
    EXPECT_TRUE(renews(lease)) << one.journal().all();
    EXPECT_TRUE(lease.held());
  }
  RedisSentinels::await_replicas(redis.primary(), 2);  // One of them confirms the release.
  const auto released = lease.release();
  EXPECT_TRUE(released) << released.error().message();
}

TEST_F(RedisSentinelFaultsTest, ADeadOrPausedSentinelStopsNobody) {
  RedisSentinels redis;
  redis.sentinel(0).kill9();
  Peer one(redis.url());
  EXPECT_TRUE(one.hold("a", 10s).release());
  redis.sentinel(1).pause();
  Peer other(redis.url());
  EXPECT_TRUE(other.hold("a", 10s).release());
  redis.sentinel(2).kill9();
  // Nobody can be asked any more; the primary that is known still serves.
  Lease lease = one.hold("a", 10s);
  EXPECT_TRUE(lease.renew());
  EXPECT_TRUE(lease.release());
  const auto none = Client::connect(redis.url("connect_timeout=500ms"));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), Errc::kUnavailable) << none.error().message();
  redis.sentinel(1).resume();
}

// The Sentinels refuse this client's subscription, so it hears no event. A paused primary closes no
// connection either. So only the poll can tell of the switch.
TEST_F(RedisSentinelFaultsTest, AMissedEventCostsAtMostThePoll) {
  constexpr milliseconds kPoll = 2s;
  constexpr milliseconds kBusyMachine = 3s;
  RedisSentinels redis({.users = {"deaf on >x ~* resetchannels +@all"}});
  Peer deaf(redis.url("sentinel_user=deaf&sentinel_password=x"));
  Lease lease = deaf.hold("a", 30s);
  await_replication(redis);
  const std::size_t before = redis.primary_index();
  redis.server(before).pause();
  redis.await_switch(before);
  const auto named = std::chrono::steady_clock::now();
  EXPECT_TRUE(deaf.journal().wait_for("the primary is now", 20s)) << deaf.journal().all();
  EXPECT_LT(std::chrono::steady_clock::now() - named, kPoll + kBusyMachine);
  EXPECT_TRUE(renews(lease)) << deaf.journal().all();
  for (std::size_t i = 0; i < 3; ++i) {
    const Reply clients = redis.sentinel(i).command({"CLIENT", "LIST", "TYPE", "pubsub"});
    EXPECT_EQ(clients.text.find("user=deaf"), std::string::npos) << "it hears: " << clients;
  }
  redis.server(before).resume();
}

TEST_F(RedisSentinelFaultsTest, AWrongNameIsToldWithAdvice) {
  RedisSentinels redis({.replicas = 0, .sentinels = 1, .quorum = 1});
  const auto client = Client::connect("redis+sentinel://" + redis.hosts() + "?primary=other");
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code(), Errc::kInvalidArgument) << client.error().message();
  EXPECT_NE(client.error().message().find("watches no primary 'other': correct primary="),
            std::string::npos)
      << client.error().message();
  // A server in a Sentinel's place.
  const std::string server = "127.0.0.1:" + std::to_string(redis.server(0).port());
  const auto confused = Client::connect("redis+sentinel://" + server + "?primary=mymaster");
  ASSERT_FALSE(confused);
  EXPECT_NE(confused.error().message().find("is a Sentinel running there?"), std::string::npos)
      << confused.error().message();
}

}  // namespace
}  // namespace holdfast::faults
