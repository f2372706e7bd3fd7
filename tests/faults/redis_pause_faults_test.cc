// The server stands still for a while, or the network holds what was sent: zombies.
#include "tests/faults/redis_harness.h"

namespace holdfast::faults {
namespace {

class RedisPauseFaultsTest : public RedisFaults {
 protected:
  void SetUp() override {
    RedisFaults::SetUp();
    if (IsSkipped()) return;
    server_.emplace();
  }

  // The lock is free now, and stays so: nothing that was sent during the pause holds it.
  void expect_free(Peer& rival, const std::string& name) {
    auto next = rival.try_hold(name, 10s);
    ASSERT_TRUE(next) << "a zombie holds it: " << server_->must({"GET", key_of(name)});
    EXPECT_TRUE(next->renew());
    EXPECT_TRUE(next->release());
  }

  std::optional<RedisServer> server_;
};

TEST_F(RedisPauseFaultsTest, AHolderIsToldOfItsLossBeforeAnybodyElseCanHold) {
  Peer one(server_->url(), {.request_timeout = 400ms});
  Peer other(server_->url());
  Lease lease = one.hold("a", 1s);
  LossWatch loss(lease);
  Waiter waiter(other, "a", 3s);
  waiter.await_queued();
  server_->pause();
  const std::int64_t told = loss.await();
  EXPECT_NE(told, 0);
  EXPECT_FALSE(lease.held());
  const std::int64_t resumed = host_boot_ns();
  server_->resume();

  Lease next = waiter.grant();
  EXPECT_LT(told, resumed);
  EXPECT_LT(lease.deadline_boottime().count(), waiter.at());
  EXPECT_GT(next.token(), lease.token());
  // The holder's renewals of the pause arrive now; they and its release change nothing.
  EXPECT_EQ(lease.release().error().code(), Errc::kLost);
  EXPECT_TRUE(next.renew());
  const LockInfo info = other.look("a");
  ASSERT_EQ(info.holders.size(), 1U);
  EXPECT_EQ(info.holders.front().token, next.token());
}

TEST_F(RedisPauseFaultsTest, APauseShorterThanTheLeaseCostsNothing) {
  Peer one(server_->url(), {.request_timeout = 300ms});
  Lease lease = one.hold("a", 3s);
  LossWatch loss(lease);
  server_->pause();
  EXPECT_TRUE(one.journal().wait_for("renewal failed, will try again"));
  EXPECT_TRUE(lease.held());
  server_->resume();
  EXPECT_TRUE(lease.renew()) << one.journal().all();
  EXPECT_FALSE(loss.told());
  EXPECT_TRUE(lease.release());
}

// One release goes over its caller's own connection, the other three over the shared one.
TEST_F(RedisPauseFaultsTest, AShortLeaseThatEndsInThePauseCostsOthersNothing) {
  Peer one(server_->url() + "?connect_timeout=20s", {.request_timeout = 20s});
  std::vector<Lease> shorts;
  std::vector<Lease> others;
  for (int i = 0; i < 2; ++i) {
    others.push_back(one.hold("other/" + std::to_string(i), 30s));
    shorts.push_back(one.hold("short/" + std::to_string(i), 500ms));
  }
  one.look("other/0");  // Connects the shared one.
  server_->pause();
  const auto release = [](Lease& lease) {
    return std::async(std::launch::async, [&lease] { return lease.release(); });
  };
  std::vector<std::future<Result<void>>> hasty;
  std::vector<std::future<Result<void>>> patient;
  for (Lease& each : shorts) hasty.push_back(release(each));
  for (Lease& each : others) patient.push_back(release(each));
  for (auto& each : hasty) EXPECT_FALSE(each.get()) << "nobody can have answered";
  server_->resume();
  for (auto& each : patient) {
    const auto released = each.get();
    EXPECT_TRUE(released) << released.error().message();
  }
}

// Fresh: only the caller's own connection has been used, none of the loop's.
TEST_F(RedisPauseFaultsTest, ATryThatGaveUpOnAPausedServerHoldsNothingLater) {
  Peer one(server_->url(), {.request_timeout = 300ms});
  Peer rival(server_->url());
  server_->pause();
  // Shorter than the rival's patience would hide the zombie: renewed by nobody it lasts 1 s.
  const auto lease = one.client().mutex("a").try_acquire({.ttl = 1s});
  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().code(), Errc::kOutcomeUnknown) << lease.error().message();
  const std::int64_t resumed = host_boot_ns();
  server_->resume();
  Lease next = rival.hold("a", 10s);
  EXPECT_LT(host_boot_ns() - resumed, ns(800ms)) << "a zombie held it";
  EXPECT_TRUE(next.renew());
}

TEST_F(RedisPauseFaultsTest, AWaitThatGaveUpOnAPausedServerHoldsNothingLater) {
  Peer one(server_->url(), {.request_timeout = 300ms});
  Peer rival(server_->url());
  server_->pause();
  const auto lease = one.client().mutex("a").acquire({.wait = 600ms, .ttl = 30s});
  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().code(), Errc::kOutcomeUnknown) << lease.error().message();
  server_->resume();
  const auto next = rival.client().mutex("a").acquire({.wait = 2s, .ttl = 5s});
  EXPECT_TRUE(next) << "a zombie holds it";
}

TEST_F(RedisPauseFaultsTest, WhoIsCancelledInThePauseLeavesNoTicket) {
  Peer one(server_->url());
  Peer other(server_->url(), {.request_timeout = 300ms});
  Lease lease = one.hold("a", 30s);
  auto waiter = std::make_unique<Waiter>(other, "a", 30s);
  waiter->await_queued();
  server_->pause();
  waiter.reset();
  server_->resume();
  EXPECT_TRUE(server_->eventually([&](RedisServer&) { return one.look("a").waiters.empty(); }, 2s));
  EXPECT_TRUE(lease.release());
  expect_free(one, "a");
}

// --- The network holds one message.

class ZombieTest : public RedisPauseFaultsTest {
 protected:
  void SetUp() override {
    RedisPauseFaultsTest::SetUp();
    if (IsSkipped()) return;
    proxy_.emplace(
        support::ProxyOptions{.server_port = server_->port(), .framing = Framing::kResp});
    url_ = server_->url({.port = proxy_->port()});
  }

  std::optional<FaultProxy> proxy_;
  std::string url_;
};

TEST_F(ZombieTest, AReleaseThatArrivesWhenAnotherHoldsFreesNothing) {
  Peer one(url_, {.request_timeout = 300ms});
  Peer other(server_->url());
  Lease lease = one.hold("a", 500ms);
  const int hold = proxy_->add({.kind = Fault::Kind::kHold, .containing = "release"});
  const auto released = lease.release();
  ASSERT_FALSE(released);
  EXPECT_TRUE(released.error().code() == Errc::kOutcomeUnknown ||
              released.error().code() == Errc::kUnavailable)
      << released.error().message();
  ASSERT_TRUE(proxy_->wait_for_hits(hold));

  Lease next = other.hold("a", 5s);
  const std::int64_t before = server_->command_count("evalsha");
  proxy_->remove(hold);
  ASSERT_TRUE(server_->eventually(
      [&](RedisServer& asked) { return asked.command_count("evalsha") > before; }));
  EXPECT_TRUE(next.renew());
  const LockInfo info = other.look("a");
  ASSERT_EQ(info.holders.size(), 1U);
  EXPECT_EQ(info.holders.front().token, next.token());
}

// A cancel on another connection overtakes the request that it takes back.
TEST_F(ZombieTest, AnAcquireThatArrivesAfterItsCancelIsRefused) {
  Peer one(url_, {.request_timeout = 300ms});
  Peer other(server_->url());
  static_cast<void>(one.hold("warm", 5s).release());
  // The owner's text stands in acquires only.
  const int hold = proxy_->add({.kind = Fault::Kind::kHold, .containing = "\"host\""});
  const auto lease = one.client().mutex("a").acquire({.wait = 200ms, .ttl = 10s});
  ASSERT_TRUE(proxy_->wait_for_hits(hold));
  ASSERT_FALSE(lease) << "no answer can have come";
  EXPECT_NE(lease.error().code(), Errc::kOutcomeUnknown) << lease.error().message();
  const auto seen = proxy_->stats();
  proxy_->remove(hold);
  ASSERT_TRUE(proxy_->wait_for([&](const support::ProxyStats& stats) {
    return at(stats.pending, Direction::kToServer) == 0 &&
           stats.replies_to_the_gone > seen.replies_to_the_gone;
  }));
  expect_free(other, "a");
}

TEST_F(ZombieTest, AReplyLaterThanTheLeaseIsNotReportedAsHeld) {
  Peer one(url_, {.request_timeout = 5s});
  Peer other(server_->url());
  Lease first = one.hold("a", 500ms);
  ASSERT_TRUE(first.release());
  proxy_->add({.kind = Fault::Kind::kDelay,
               .direction = Direction::kToClient,
               .containing = "held ",
               .times = 1,
               .delay = 900ms});
  const auto lease = one.client().mutex("a").acquire({.wait = 5s, .ttl = 600ms});
  // Asked for anew, since nothing of the first lease was left.
  ASSERT_TRUE(lease) << lease.error().message();
  EXPECT_TRUE(lease->held());
  const LockInfo info = other.look("a");
  ASSERT_EQ(info.holders.size(), 1U) << "reported as held, and nobody holds it";
  EXPECT_EQ(info.holders.front().token, lease->token());
}

TEST_F(ZombieTest, ARenewalsReplyThatComesAfterTheLeaseDoesNotReviveIt) {
  Peer one(url_, {.request_timeout = 5s});
  Lease lease = one.hold("a", 600ms);
  LossWatch loss(lease);
  const int hold = proxy_->add({.kind = Fault::Kind::kHold, .direction = Direction::kToClient});
  const std::int64_t told = loss.await();
  EXPECT_NE(told, 0);
  proxy_->remove(hold);
  EXPECT_FALSE(lease.held());
  EXPECT_EQ(lease.release().error().code(), Errc::kLost);
}

}  // namespace
}  // namespace holdfast::faults
