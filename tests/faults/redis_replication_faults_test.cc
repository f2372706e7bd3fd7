// A fail-over after the replication was lost on its way. Stopping the replicas would not do: what
// the primary has sent waits in their sockets, and they read it when they are promoted.
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/faults/client_side.h"
#include "tests/support/clock_shift.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/redis_cluster.h"
#include "tests/support/redis_connection.h"
#include "tests/support/redis_sentinels.h"
#include "tests/support/server_network.h"

namespace holdfast::faults {
namespace {

using support::RedisSentinels;
using support::RedisServer;

[[maybe_unused]] const bool kPrivateNetwork = support::keep_network_private();

class RedisReplicationFaultsTest : public testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_REDIS();
    if (!kPrivateNetwork) GTEST_SKIP() << "SKIPPED: a network of its own needs root";
  }

  static Lease granted(const Client& client, const std::string& name) {
    std::optional<Lease> got;
    const bool in_time = eventually([&] {
      auto lease = client.mutex(name).try_acquire();
      if (lease && *lease) got = std::move(**lease);
      return got.has_value();
    });
    if (!in_time) throw std::runtime_error("it is not granted: " + name);
    return *std::move(got);
  }
  static void replicate_all(RedisServer& primary) {
    primary.must({"SET", "mark", "1"});
    ASSERT_EQ(primary.must({"WAIT", "2", "10000"}).integer, 2);
  }
  // A replica takes its place.
  static void kill_primary(RedisSentinels& redis) {
    const std::size_t before = redis.primary_index();
    redis.server(before).kill9();
    redis.await_switch(before);
  }
};

// The declared cell: two believe that they hold. The first is told when it learns of the switch.
TEST_F(RedisReplicationFaultsTest, AGrantThatWasNotReplicatedIsLostAndItsHolderIsTold) {
  RedisSentinels redis;
  const Client one = connect(redis.url());
  const Client other = connect(redis.url());
  Lease kept = hold(one, "kept");
  const std::size_t before = redis.primary_index();
  RedisServer& primary = redis.server(before);
  replicate_all(primary);
  RedisSentinels::drop_replication(primary);
  Lease forgotten = hold(one, "forgotten");
  primary.must({"SET", "mark", "2"});  // WAIT is about this write.
  ASSERT_EQ(primary.must({"WAIT", "1", "100"}).integer, 0) << "the flow was not dropped";

  primary.kill9();
  redis.await_switch(before);

  Lease second = granted(other, "forgotten");
  EXPECT_TRUE(fires(forgotten.lost()));
  EXPECT_EQ(forgotten.loss()->code(), Errc::kLost) << forgotten.loss()->message();
  EXPECT_GT(second.token(), forgotten.token());  // The clock of both servers is the same one.
  EXPECT_EQ(forgotten.release().error().code(), Errc::kLost);
  EXPECT_TRUE(second.renew()) << "the old holder's release has freed it";
  EXPECT_TRUE(eventually([&] { return kept.renew().has_value(); }));
  EXPECT_TRUE(kept.held());
  expect_released(second);
}

// At the new primary the lease ends as the last renewal that was replicated had it: declared.
TEST_F(RedisReplicationFaultsTest, ARenewalThatWasNotReplicatedLetsAnotherInTooEarly) {
  constexpr milliseconds kTtl = 12s;
  RedisSentinels redis;
  const Client one = connect(redis.url());
  const Client other = connect(redis.url());
  auto lease = one.mutex("a").acquire({.wait = kLong, .ttl = kTtl});
  ASSERT_TRUE(lease) << lease.error().message();
  RedisServer& primary = redis.primary();
  replicate_all(primary);
  const auto replicated_end = base::BootClock::now() + kTtl;
  RedisSentinels::drop_replication(primary);
  while (base::BootClock::now() < replicated_end - 300ms) {
    ASSERT_TRUE(lease->renew());
    std::this_thread::sleep_for(100ms);
  }
  const auto believed = base::BootClock::now() + lease->remaining();
  kill_primary(redis);
  Lease second = granted(other, "a");
  EXPECT_LT(base::BootClock::now(), believed) << "the lease was over: nothing was lost";
  EXPECT_TRUE(fires(lease->lost()));
  expect_released(second);
}

TEST_F(RedisReplicationFaultsTest, AReleaseThatWasNotReplicatedCostsTheRestOfTheLease) {
  RedisSentinels redis;
  const Client one = connect(redis.url());
  const Client other = connect(redis.url());
  auto lease = one.mutex("a").acquire({.wait = kLong, .ttl = 15s});
  ASSERT_TRUE(lease) << lease.error().message();
  replicate_all(redis.primary());
  RedisSentinels::drop_replication(redis.primary());
  expect_released(*lease);
  kill_primary(redis);
  std::optional<bool> busy;
  ASSERT_TRUE(eventually([&] {
    const auto tried = other.mutex("a").try_acquire();
    if (tried) busy = !tried->has_value();
    return busy.has_value();
  }));
  EXPECT_TRUE(*busy) << "the new primary knows of the release";
  Lease next = granted(other, "a");
  expect_released(next);
}

TEST_F(RedisReplicationFaultsTest, AWaiterThatWasNotReplicatedQueuesAgain) {
  RedisSentinels redis;
  const Client one = connect(redis.url());
  const Client other = connect(redis.url());
  auto lease = one.mutex("a").acquire({.wait = kLong, .ttl = 60s});
  ASSERT_TRUE(lease) << lease.error().message();
  replicate_all(redis.primary());
  RedisSentinels::drop_replication(redis.primary());
  auto waiting = wait_for(other, "a");
  kill_primary(redis);
  EXPECT_TRUE(eventually([&] {
    const auto info = one.inspect("a");
    return info && *info && (*info)->waiters.size() == 1;
  }));
  EXPECT_TRUE(eventually([&] { return lease->release().has_value(); }));
  EXPECT_TRUE(waiting.get());
}

// One client no longer hears of the Sentinels. They no longer reach the primary, which lets nobody
// log in any more. Both primaries grant: declared.
TEST_F(RedisReplicationFaultsTest, AClientWithoutSentinelsGoesOnAtAPrimaryThatWasReplaced) {
  RedisSentinels redis;
  std::vector<std::unique_ptr<support::FaultProxy>> ways;
  std::string hosts;
  for (std::size_t i = 0; i < 3; ++i) {
    ways.push_back(std::make_unique<support::FaultProxy>(
        support::ProxyOptions{.server_port = redis.sentinel(i).port()}));
    hosts += (i > 0 ? "," : "") + ("127.0.0.1:" + std::to_string(ways.back()->port()));
  }
  const Client cut = connect("redis+sentinel://" + hosts + "?primary=mymaster");
  const Client other = connect(redis.url());
  Lease warm = hold(cut, "warm");
  EXPECT_TRUE(warm.renew());
  const std::size_t before = redis.primary_index();
  support::RedisConnection old(redis.primary().port());
  for (const auto& way : ways) {
    for (const auto direction : {support::Direction::kToServer, support::Direction::kToClient}) {
      way->add({.kind = support::Fault::Kind::kBlackhole, .direction = direction});
    }
  }
  ASSERT_FALSE(old.command({"CONFIG", "SET", "requirepass", "changed"}).is_error());
  std::istringstream clients(old.command({"CLIENT", "LIST"}).text);
  for (std::string line; std::getline(clients, line);) {
    if (line.find(" name=sentinel-") == std::string::npos) continue;
    const std::string id = line.substr(3, line.find(' ') - 3);
    ASSERT_EQ(old.command({"CLIENT", "KILL", "ID", id}).integer, 1) << line;
  }
  redis.await_switch(before);
  Lease first = hold(cut, "a");
  Lease second = granted(other, "a");
  EXPECT_TRUE(first.held()) << "only one of them believes";
  EXPECT_TRUE(second.held());
}

// The outcome is a value beside a lock: declared.
TEST_F(RedisReplicationFaultsTest, AnOutcomeThatWasNotReplicatedIsRunForAgain) {
  RedisSentinels redis;
  const Client one = connect(redis.url());
  const Client other = connect(redis.url());
  int runs = 0;
  const auto work = [&](Lease&) { return std::to_string(++runs); };
  replicate_all(redis.primary());
  RedisSentinels::drop_replication(redis.primary());
  ASSERT_TRUE(one.once("payment", 1h).run(work, {.wait = kLong}));
  EXPECT_EQ(other.once("payment", 1h).run(work, {.wait = kLong}).value(), "1");
  kill_primary(redis);
  EXPECT_TRUE(
      eventually([&] { return other.once("payment", 1h).run(work, {.wait = 1s}).has_value(); }));
  EXPECT_GE(runs, 2);
}

// The primary's clock runs 30 s ahead of the replica's. The new primary goes on from the last token
// that it knows, so a grant that it never heard of has a higher one: declared.
TEST_F(RedisReplicationFaultsTest, BehindTheOldClockAPromotedReplicaMayMintASmallerToken) {
  support::ClockShift ahead;
  const support::ClockShift right;
  ahead.set(30s);
  RedisSentinels redis({.server = {.clock_shift_file = ahead.path()},
                        .replica_shift_files = {right.path(), right.path()}});
  const Client one = connect(redis.url());
  const Client other = connect(redis.url());
  Lease known = hold(one, "a");
  const Token last = known.token();
  expect_released(known);
  Lease kept = hold(one, "kept");
  RedisServer& primary = redis.primary();
  replicate_all(primary);
  RedisSentinels::drop_replication(primary);
  Lease forgotten = hold(one, "a");
  const std::size_t before = redis.primary_index();
  primary.kill9();
  redis.await_switch(before);
  Lease next = granted(other, "a");
  EXPECT_GT(next.token(), last) << "what was replicated still counts";
  EXPECT_LT(next.token(), forgotten.token()) << "the clocks agree: nothing was injected";
  // By the new primary's clock the replicated lease ends 30 s later: that costs time only.
  EXPECT_FALSE(other.mutex("kept").try_acquire().value());
  EXPECT_TRUE(eventually([&] { return kept.renew().has_value(); }));
  EXPECT_TRUE(fires(forgotten.lost()));
  EXPECT_TRUE(next.renew());
}

// Both clocks stand below the last token, because the primary's once ran ahead. Then the old and
// the new primary mint the same next token: declared.
TEST_F(RedisReplicationFaultsTest, BelowTheLastTokenBothPrimariesMayMintTheSameOne) {
  support::ClockShift clock;
  clock.set(1h);
  RedisSentinels redis({.server = {.clock_shift_file = clock.path()}});
  const Client one = connect(redis.url());
  const Client other = connect(redis.url());
  Lease known = hold(one, "a");
  const Token last = known.token();
  expect_released(known);
  clock.set(0s);
  RedisServer& primary = redis.primary();
  replicate_all(primary);
  RedisSentinels::drop_replication(primary);
  Lease forgotten = hold(one, "a");
  EXPECT_EQ(forgotten.token().counter, last.counter + 1);
  const std::size_t before = redis.primary_index();
  primary.kill9();
  redis.await_switch(before);
  Lease next = granted(other, "a");
  EXPECT_EQ(next.token(), forgotten.token());
  // The token is the same, and still only one of them is the holder.
  EXPECT_TRUE(fires(forgotten.lost()));
  EXPECT_FALSE(forgotten.release());
  EXPECT_TRUE(next.renew()) << "the other one's release has freed it";
}

// The same in a cluster: the replica that takes over has not heard of the grant.
TEST_F(RedisReplicationFaultsTest, AGrantThatAClustersReplicaHasNotHeardOfIsLostToo) {
  support::RedisCluster redis({.replicas = 1, .full_coverage = false});
  const Client one = connect(redis.url());
  const Client other = connect(redis.url());
  const int slot = redis.slot_of("hf1:{forgotten}");
  const std::size_t before = redis.owner(slot);
  RedisServer& primary = redis.node(before);
  RedisSentinels::drop_replication(primary);
  Lease forgotten = hold(one, "forgotten");
  primary.must({"SET", "{forgotten}", "1"});
  ASSERT_EQ(primary.must({"WAIT", "1", "100"}).integer, 0) << "the flow was not dropped";

  primary.kill9();
  redis.take_over(redis.replica_of(before));

  std::optional<Lease> second;
  ASSERT_TRUE(eventually([&] {
    auto lease = other.mutex("forgotten").try_acquire();
    if (lease && *lease) second = std::move(**lease);
    return second.has_value();
  }));
  EXPECT_TRUE(fires(forgotten.lost()));
  EXPECT_EQ(forgotten.loss()->code(), Errc::kLost) << forgotten.loss()->message();
  EXPECT_GT(second->token(), forgotten.token());  // The clock of both servers is the same one.
  EXPECT_TRUE(eventually([&] { return second->renew().has_value(); }));
  expect_released(*second);
}

// Both replicas have to confirm, so no grant can be lost with the one that is promoted.
TEST_F(RedisReplicationFaultsTest, AGrantThatNeedsTheReplicasIsNotMadeWithoutThem) {
  RedisSentinels redis;
  const Client one = connect(redis.url("replicas=2&replicas_timeout=300ms"));
  Lease kept = hold(one, "kept");
  RedisServer& primary = redis.primary();
  RedisSentinels::drop_replication(primary);
  const auto refused = one.mutex("forgotten").try_acquire();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::kUnavailable) << refused.error().message();
  const std::size_t before = redis.primary_index();
  primary.kill9();
  redis.await_switch(before);
  RedisSentinels::await_replicas(redis.primary(), 1);
  // Only one replica is left, so two cannot confirm; one can.
  const Client other = connect(redis.url("replicas=1&replicas_timeout=2s"));
  EXPECT_FALSE(other.mutex("kept").try_acquire().value()) << "the confirmed grant is lost";
  Lease next = hold(other, "forgotten");
  expect_released(next);
}

}  // namespace
}  // namespace holdfast::faults
