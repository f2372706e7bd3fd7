// ?replicas=N: a grant counts when N replicas have confirmed it, and not before.
#include <future>
#include <memory>
#include <thread>

#include "tests/faults/redis_harness.h"
#include "tests/support/eventually.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/redis_sentinels.h"

namespace holdfast::faults {
namespace {

using support::RedisSentinels;

class RedisReplicasFaultsTest : public RedisFaults {
 protected:
  void SetUp() override {
    RedisFaults::SetUp();
    if (IsSkipped()) return;
    primary_.emplace();
    replica_.emplace(support::RedisOptions{.replica_of = &*primary_});
    RedisSentinels::await_replicas(*primary_, 1);
  }
  std::string url(const std::string& replicas, const std::string& timeout = "300ms") const {
    return primary_->url({.query = {{"replicas", replicas}, {"replicas_timeout", timeout}}});
  }
  std::size_t holders(const std::string& name) {
    Peer plain(primary_->url());
    const auto info = plain.client().inspect(name);
    return info && *info ? (*info)->holders.size() : 0;
  }

  std::optional<RedisServer> primary_;
  std::optional<RedisServer> replica_;
};

TEST_F(RedisReplicasFaultsTest, AGrantThatIsNotConfirmedIsGivenBack) {
  Peer one(url("1"));
  {
    Lease lease = one.hold("a", 30s);
    EXPECT_TRUE(lease.renew());
    EXPECT_TRUE(lease.release());
  }
  replica_->pause();
  const Error refused = one.refusal("a");
  EXPECT_EQ(refused.code(), Errc::kUnavailable) << refused.message();
  EXPECT_NE(refused.message().find("1 replicas did not confirm it within 300 ms (0 did)"),
            std::string::npos)
      << refused.message();
  EXPECT_EQ(holders("a"), 0U);
  // WAIT on a connection that has written nothing would say yes.
  Peer fresh(url("1"));
  EXPECT_EQ(fresh.refusal("b").code(), Errc::kUnavailable);
  EXPECT_EQ(holders("b"), 0U);
  replica_->resume();
  EXPECT_TRUE(support::eventually([&] {
    const auto lease = one.client().mutex("a").try_acquire();
    return lease && *lease;
  }));
}

// The request that gives it back is lost, too. So the lock may stay held for one ttl.
TEST_F(RedisReplicasFaultsTest, AGrantThatIsNeitherConfirmedNorGivenBackIsUnknown) {
  support::FaultProxy way({.server_port = primary_->port(), .framing = support::Framing::kResp});
  Peer one(primary_->url(
               {.port = way.port(), .query = {{"replicas", "1"}, {"replicas_timeout", "300ms"}}}),
           {.request_timeout = 2s});
  EXPECT_TRUE(one.hold("a", 30s).release());
  way.add({.kind = support::Fault::Kind::kBlackhole, .containing = "cancel"});
  replica_->pause();
  const Error refused = one.refusal("a");
  EXPECT_EQ(refused.code(), Errc::kOutcomeUnknown) << refused.message();
  EXPECT_EQ(holders("a"), 1U);
  replica_->resume();
}

TEST_F(RedisReplicasFaultsTest, WithoutReplicasNothingIsGranted) {
  RedisServer alone;
  Peer one(alone.url({.query = {{"replicas", "1"}, {"replicas_timeout", "100ms"}}}));
  EXPECT_EQ(one.refusal("a").code(), Errc::kUnavailable);
  const auto never = [](Lease&) { return std::string("ran"); };
  EXPECT_FALSE(one.client().once("o", 1h).run(never, {.wait = 1s}));
  Peer more(url("2", "100ms"));
  EXPECT_EQ(more.refusal("a").code(), Errc::kUnavailable) << "one of two has confirmed it";
}

// The old deadline stays, and a slow replica delays no release.
TEST_F(RedisReplicasFaultsTest, AnUnconfirmedRenewalExtendsNothing) {
  Peer one(url("1"));
  Lease lease = one.hold("a", 6s);
  Lease other = one.hold("b", 30s);
  LossWatch loss(lease);
  replica_->pause();
  EXPECT_FALSE(lease.renew());
  EXPECT_TRUE(lease.held());
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(other.release());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 3s);
  EXPECT_NE(loss.await(), 0);
  EXPECT_FALSE(lease.held());
  replica_->resume();
}

TEST_F(RedisReplicasFaultsTest, AHandoffCountsOnceItIsConfirmedAndALagDrainsNoQueue) {
  Peer plain(primary_->url());
  Peer one(url("1"));
  Peer two(url("1"));
  Lease lease = plain.hold("a", 30s);
  Waiter first(one, "a", 30s);
  first.await_queued();
  Waiter second(two, "a", 30s);
  second.await_queued();
  replica_->pause();
  ASSERT_TRUE(lease.release());
  // The server has handed it on; the waiter must not believe that.
  EXPECT_TRUE(support::eventually([&] { return holders("a") == 1; }));
  EXPECT_FALSE(first.done_within(1500ms));
  EXPECT_FALSE(second.done_within(0ms));
  replica_->resume();
  Lease next = first.grant();
  EXPECT_TRUE(next.release());
  EXPECT_TRUE(second.grant().release());
}

TEST_F(RedisReplicasFaultsTest, ASlowReplicaOnlyDelaysWhatNeedsIt) {
  Peer one(url("1", "10s"));
  Lease lease = one.hold("a", 30s);
  replica_->pause();
  std::optional<Waiter> slow;
  slow.emplace(one, "b", 30s);
  const bool blocked = primary_->eventually(
      [](RedisServer& server) { return server.info("clients", "blocked_clients") == "1"; });
  EXPECT_TRUE(blocked);
  EXPECT_TRUE(lease.release());
  EXPECT_FALSE(slow->done_within(0ms));
  replica_->resume();
  EXPECT_TRUE(slow->grant().release());
}

// A renewal may wait for a replica for longer than the lease of the waiters beside it.
TEST_F(RedisReplicasFaultsTest, ARenewalThatWaitsForAReplicaDelaysNoHeartbeat) {
  Peer plain(primary_->url());
  Lease blocker = plain.hold("b", 60s);
  Peer one(url("1", "20s"), {.request_timeout = 40s});
  Lease held = one.hold("a", 120s);
  std::vector<std::unique_ptr<Waiter>> queue;
  for (int i = 0; i < 4; ++i) {
    queue.push_back(std::make_unique<Waiter>(one, "b", 1500ms));
    queue.back()->await_queued();
  }
  replica_->pause();
  auto renewed = std::async(std::launch::async, [&] { return held.renew(); });
  // Heartbeats that had to wait for it would have it given up.
  EXPECT_EQ(renewed.wait_for(3s), std::future_status::timeout);
  const auto info = plain.client().inspect("b");
  ASSERT_TRUE(info && *info);
  EXPECT_EQ((*info)->waiters.size(), queue.size()) << "heartbeats waited behind the renewal";
  replica_->resume();
  const auto outcome = renewed.get();
  EXPECT_TRUE(outcome) << outcome.error().message();
  EXPECT_TRUE(blocker.release());
  for (const auto& each : queue) EXPECT_TRUE(each->grant().release());
}

TEST_F(RedisReplicasFaultsTest, SeveralLocksAreGivenBackTogether) {
  Peer one(url("1"));
  const std::vector<LockRequest> locks = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
  {
    auto all = one.client().try_acquire_all(locks);
    ASSERT_TRUE(all && *all) << all.error().message();
    EXPECT_TRUE((*all)->release());  // Grants have a connection of their own, which may be ahead.
  }
  replica_->pause();
  const auto all = one.client().try_acquire_all(locks);
  ASSERT_FALSE(all) << (*all ? "they were granted" : "they were busy");
  EXPECT_EQ(all.error().code(), Errc::kUnavailable) << all.error().message();
  for (const LockRequest& each : locks) EXPECT_EQ(holders(each.name), 0U) << each.name;
  replica_->resume();
}

TEST_F(RedisReplicasFaultsTest, AnOutcomeThatIsNotConfirmedIsNotReported) {
  Peer one(url("1"));
  Once once = one.client().once("payment", 1h);
  const auto receipt = once.run(
      [&](Lease&) {
        replica_->pause();
        return std::string("paid");
      },
      {.wait = 2s});
  EXPECT_FALSE(receipt) << *receipt;
  replica_->resume();
}

}  // namespace
}  // namespace holdfast::faults
