// redis+cluster:// while its slots move and its nodes fail, with real servers.
#include <atomic>
#include <thread>

#include "tests/faults/redis_harness.h"
#include "tests/support/eventually.h"
#include "tests/support/no_descriptors.h"
#include "tests/support/redis_cluster.h"

namespace holdfast::faults {
namespace {

using support::eventually;
using support::RedisCluster;

// Takes and gives back one lock again and again, and counts how many believe to hold it.
class Load {
 public:
  Load(const std::string& url, const std::string& name, int threads) {
    for (int i = 0; i < threads; ++i) {
      workers_.emplace_back([this, url, name](const std::stop_token& stop) { work(url, name, stop); });
    }
  }

  int most_at_once() const { return most_; }
  bool tokens_went_back() const { return backwards_; }
  bool await_more(int number) {
    const int before = grants_;
    return eventually([&] { return grants_ >= before + number; });
  }

 private:
  void work(const std::string& url, const std::string& name, const std::stop_token& stop) {
    Peer peer(url);
    std::uint64_t last = 0;
    while (!stop.stop_requested()) {
      auto lease = peer.client().mutex(name).acquire({.wait = 2s, .ttl = 5s, .cancel = stop});
      if (!lease) continue;  // The slot moves, or its node is gone.
      const int now = ++holders_;
      if (lease->held()) most_ = std::max(most_.load(), now);
      if (lease->token().counter <= last) backwards_ = true;
      last = lease->token().counter;
      --holders_;
      static_cast<void>(lease->release());
      ++grants_;
    }
  }

  std::atomic<int> holders_{0};
  std::atomic<int> most_{0};
  std::atomic<int> grants_{0};
  std::atomic<bool> backwards_{false};
  std::vector<std::jthread> workers_;
};

class RedisClusterStoreTest : public RedisFaults {
 protected:
  // Shared by the tests that leave all its nodes alive.
  static RedisCluster& cluster() {
    if (shared_ == nullptr) shared_ = std::make_unique<RedisCluster>();
    return *shared_;
  }
  static void TearDownTestSuite() { shared_.reset(); }

  static std::vector<std::string> keys_in(RedisCluster& redis, int slot, std::size_t node) {
    std::vector<std::string> keys;
    const Reply found =
        redis.node(node).must({"CLUSTER", "GETKEYSINSLOT", std::to_string(slot), "100"});
    for (const Reply& key : found.elements) keys.push_back(key.text);
    return keys;
  }

 private:
  static std::unique_ptr<RedisCluster> shared_;
};

std::unique_ptr<RedisCluster> RedisClusterStoreTest::shared_;

TEST_F(RedisClusterStoreTest, HoldersAndWaitersFollowASlotThatMovesUnderLoad) {
  RedisCluster& redis = cluster();
  const std::string name = "moving";
  const int slot = redis.slot_of(key_of(name));
  Peer one(redis.url());
  Peer other(redis.url());
  Lease lease = one.hold(name, 3s);
  LossWatch loss(lease);
  Waiter waiter(other, name, 3s);
  waiter.await_queued();
  Load load(redis.url(), "busy{", 3);  // Another slot; the braces are part of the name.
  ASSERT_TRUE(load.await_more(20));

  for (int i = 0; i < 4; ++i) {
    const std::size_t from = redis.owner(slot);
    redis.move_slot(slot, (from + 1) % redis.primaries());
    EXPECT_TRUE(eventually([&] { return lease.renew().has_value() || !lease.held(); }));
    ASSERT_TRUE(lease.held()) << one.journal().all();
    const int busy = redis.slot_of("hf1:{busy%7B}");
    redis.move_slot(busy, (redis.owner(busy) + 1) % redis.primaries());
    EXPECT_TRUE(load.await_more(20));
  }
  EXPECT_FALSE(loss.told());
  EXPECT_FALSE(waiter.done_within(0ms)) << "two hold it";
  ASSERT_TRUE(eventually([&] { return lease.release().has_value(); }));
  Lease next = waiter.grant();
  EXPECT_GT(next.token(), lease.token());
  EXPECT_TRUE(next.release());
  EXPECT_EQ(load.most_at_once(), 1);
  EXPECT_FALSE(load.tokens_went_back());
}

// An operator whose tool died in mid-move: longer than every lease.
TEST_F(RedisClusterStoreTest, HoldersKeepTheirLocksInASlotThatIsStuckHalfway) {
  RedisCluster& redis = cluster();
  const std::string plain = "stuck";
  const int slot = redis.slot_of(key_of(plain));
  const std::size_t from = redis.owner(slot);
  const std::size_t to = (from + 1) % redis.primaries();
  Peer one(redis.url());
  Lease lease = one.hold(plain, 2s);
  LossWatch loss(lease);
  redis.open_move(slot, to);
  const auto lives_on = [&] {
    const auto until = std::chrono::steady_clock::now() + 3s;
    while (std::chrono::steady_clock::now() < until && lease.held()) {
      std::this_thread::sleep_for(50ms);
    }
    return lease.held();
  };
  EXPECT_TRUE(lives_on()) << "at the source\n" << one.journal().all();
  redis.move_keys(keys_in(redis, slot, from), from, to);
  EXPECT_TRUE(lives_on()) << "at the importer\n" << one.journal().all();
  EXPECT_FALSE(loss.told());
  EXPECT_TRUE(eventually([&] { return lease.release().has_value(); }));
  redis.close_move(slot, to);
  EXPECT_TRUE(one.hold(plain, 2s).release());
}

// A waiter's channel goes with its slot: the server ends the subscription.
TEST_F(RedisClusterStoreTest, AWaiterHearsOfItsGrantAfterItsSubscriptionWasEnded) {
  RedisCluster& redis = cluster();
  const std::string name = "subscribed";
  const int slot = redis.slot_of(key_of(name));
  Peer one(redis.url());
  Peer other(redis.url());
  Lease lease = one.hold(name, 10s);
  Waiter waiter(other, name, 10s);
  waiter.await_queued();
  redis.move_slot(slot, (redis.owner(slot) + 1) % redis.primaries());
  ASSERT_TRUE(eventually([&] { return lease.release().has_value(); }));
  Lease next = waiter.grant(10s);
  EXPECT_TRUE(next.held());
  EXPECT_TRUE(next.release());
}

class RedisClusterFailoverTest : public RedisClusterStoreTest {};

TEST_F(RedisClusterFailoverTest, AReplicaThatIsElectedServesHoldersAndWaiters) {
  RedisCluster redis({.replicas = 1, .node_timeout = 2s, .full_coverage = false});
  const std::string name = "a";
  const int slot = redis.slot_of(key_of(name));
  const std::size_t before = redis.owner(slot);
  Peer one(redis.url());
  Peer other(redis.url());
  Lease lease = one.hold(name, 60s);
  LossWatch loss(lease);
  Waiter waiter(other, name, 60s);
  waiter.await_queued();
  redis.await_replicas(before);

  redis.node(before).kill9();
  redis.await_other_owner(slot, before);
  EXPECT_TRUE(eventually([&] { return lease.renew().has_value() || !lease.held(); }));
  EXPECT_TRUE(lease.held()) << one.journal().all();
  EXPECT_FALSE(waiter.done_within(0ms)) << "two hold it";
  ASSERT_TRUE(eventually([&] { return lease.release().has_value(); }));
  Lease next = waiter.grant();
  EXPECT_GT(next.token(), lease.token());
  EXPECT_FALSE(loss.told());
  EXPECT_TRUE(next.release());

  // The old primary comes back as a replica, without its memory.
  redis.node(before).start();
  EXPECT_TRUE(redis.node(before).eventually(
      [](RedisServer& server) { return server.info("replication", "role") == "slave"; }));
  EXPECT_TRUE(one.hold(name, 10s).release());
}

// The declared cell: Redis 7 tells no replica which of its primary's slots move.
TEST_F(RedisClusterFailoverTest, AReplicaPromotedInMidMoveForgetsTheLocksThatHaveLeft) {
  RedisCluster redis({.replicas = 1, .full_coverage = false});
  if (redis.node(0).version().at(0) > 7) GTEST_SKIP() << "SKIPPED: this server tells its replicas";
  const int slot = redis.slot_of(key_of("a"));
  const std::size_t from = redis.owner(slot);
  const std::size_t to = (from + 1) % redis.primaries();
  Peer one(redis.url());
  Peer other(redis.url());
  Lease lease = one.hold("a", 60s);
  LossWatch loss(lease);
  redis.open_move(slot, to);
  redis.move_keys({key_of("a")}, from, to);
  redis.node(from).kill9();
  redis.take_over(redis.replica_of(from));
  std::optional<Lease> second;
  ASSERT_TRUE(eventually([&] {
    auto taken = other.client().mutex("a").try_acquire({.ttl = 10s});
    if (taken && *taken) second = std::move(**taken);
    return second.has_value();
  })) << other.journal().all();
  EXPECT_NE(loss.await(), 0) << one.journal().all();
  EXPECT_TRUE(eventually([&] { return second->release().has_value(); }));
}

// The client has no connections to the replicas yet, so it makes objects for them when it looks
// for the new owner.
TEST_F(RedisClusterFailoverTest, WithoutDescriptorsAClientWaitsUntilThereAreSome) {
  RedisCluster redis({.replicas = 1, .node_timeout = 2s, .full_coverage = false});
  const int slot = redis.slot_of(key_of("a"));
  const std::size_t before = redis.owner(slot);
  Peer one(redis.url());
  Peer other(redis.url());
  // Only a client whose subscription is confirmed hears at once that its server has gone.
  Lease first = other.hold("a", 60s);
  Waiter waiter(one, "a", 60s);
  waiter.await_queued();
  EXPECT_TRUE(first.release());
  Lease lease = waiter.grant();
  redis.await_replicas(before);
  {
    const support::NoDescriptors none;
    redis.node(before).kill9();
    ASSERT_TRUE(one.journal().wait_for("the connection is lost", 20s)) << one.journal().all();
    std::this_thread::sleep_for(1s);
  }
  redis.await_other_owner(slot, before);
  EXPECT_TRUE(eventually([&] { return lease.renew().has_value() || !lease.held(); }));
  EXPECT_TRUE(lease.held()) << one.journal().all();
}

TEST_F(RedisClusterStoreTest, WithoutDescriptorsConnectingFails) {
  expect_connecting_fails_without_descriptors(cluster().url("open_timeout=300ms"));
}

TEST_F(RedisClusterFailoverTest, AHandoverWithoutLossIsFollowed) {
  RedisCluster redis({.replicas = 1});
  Peer one(redis.url());
  std::vector<Lease> leases;
  for (const char* name : {"a", "b"}) leases.push_back(one.hold(name, 30s));
  redis.hand_over(redis.replica_of(redis.owner(redis.slot_of(key_of("b")))));
  for (Lease& lease : leases) {
    EXPECT_TRUE(eventually([&] { return lease.renew().has_value() || !lease.held(); }));
    EXPECT_TRUE(lease.held()) << one.journal().all();
    EXPECT_TRUE(eventually([&] { return lease.release().has_value(); }));
  }
}

}  // namespace
}  // namespace holdfast::faults
