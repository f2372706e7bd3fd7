// Messages are lost, cut off, doubled; connections die.
#include "tests/faults/redis_harness.h"

namespace holdfast::faults {
namespace {

class RedisWireFaultsTest : public RedisFaults {
 protected:
  void SetUp() override {
    RedisFaults::SetUp();
    if (IsSkipped()) return;
    server_.emplace();
    proxy_.emplace(
        support::ProxyOptions{.server_port = server_->port(), .framing = Framing::kResp});
    one_.emplace(server_->url({.port = proxy_->port()}), Peer::Options{.request_timeout = 500ms});
    other_.emplace(server_->url());
  }

  // The token stands in the lock's record: "1 held <token> ...".
  std::string stored_token(const std::string& name) {
    return server_->must({"GET", key_of(name)}).text.substr(7, 16);
  }

  void expect_sole_holder(const Lease& lease) {
    EXPECT_TRUE(lease.held());
    const LockInfo info = other_->look(lease.name());
    ASSERT_EQ(info.holders.size(), 1U);
    EXPECT_EQ(info.holders.front().token, lease.token());
    EXPECT_TRUE(info.waiters.empty());
  }

  std::optional<RedisServer> server_;
  std::optional<FaultProxy> proxy_;
  std::optional<Peer> one_;
  std::optional<Peer> other_;
};

std::string digits_of(const Token& token) {
  const std::string counter = std::to_string(token.counter);
  return std::string(16 - counter.size(), '0') + counter;
}

// Wherever the reply breaks off, the caller holds the lock by its first grant.
TEST_F(RedisWireFaultsTest, AReplyThatIsCutOffAnywhereIsAskedForAgainByTheSameId) {
  for (const std::size_t bytes : {0U, 1U, 5U, 20U}) {
    const std::string name = "a" + std::to_string(bytes);
    ASSERT_TRUE(one_->hold("warm", 5s).release());
    const int reset = proxy_->add({.kind = Fault::Kind::kReset,
                                   .direction = Direction::kToClient,
                                   .containing = "held ",
                                   .times = 1,
                                   .after_bytes = bytes});
    Lease lease = one_->hold(name, 10s);
    EXPECT_EQ(proxy_->stats().hits[reset], 1U);
    expect_sole_holder(lease);
    EXPECT_EQ(digits_of(lease.token()), stored_token(name));
    EXPECT_TRUE(lease.renew());
    EXPECT_TRUE(lease.release()) << bytes;
    EXPECT_TRUE(other_->try_hold(name, 5s));
  }
}

TEST_F(RedisWireFaultsTest, AnAcquireWhoseReplyIsLostGivesTheSameGrantWhenItIsRepeated) {
  ASSERT_TRUE(one_->hold("warm", 5s).release());
  const int drop =
      proxy_->add({.kind = Fault::Kind::kDropReplies, .containing = "{a}", .times = 1});
  Waiter waiter(*one_, "a", 10s);
  ASSERT_TRUE(proxy_->wait_for_hits(drop));
  ASSERT_TRUE(server_->eventually([&](RedisServer& asked) {
    return !asked.must({"GET", key_of("a")}).is_nil();
  }));
  const std::string granted = stored_token("a");
  Lease lease = waiter.grant();
  EXPECT_EQ(digits_of(lease.token()), granted) << "the repetition was a second grant";
  expect_sole_holder(lease);
}

TEST_F(RedisWireFaultsTest, AReleaseWhoseReplyIsLostIsAskedAgainAndTheLockIsFree) {
  // Without the script the first attempt does nothing.
  for (const bool known : {true, false}) {
    ASSERT_TRUE(one_->hold("warm", 5s).release());
    Lease lease = one_->hold("a", 10s);
    if (!known) server_->script_flush();
    const int drop =
        proxy_->add({.kind = Fault::Kind::kDropReplies, .containing = "release", .times = 1});
    const auto released = lease.release();
    EXPECT_EQ(proxy_->stats().hits[drop], 1U);
    ASSERT_FALSE(released);
    EXPECT_EQ(released.error().code(), Errc::kOutcomeUnknown) << released.error().message();
    const auto next = other_->client().mutex("a").acquire({.wait = 2s, .ttl = 5s});
    EXPECT_TRUE(next) << "known: " << known;
  }
}

TEST_F(RedisWireFaultsTest, RenewalsWhoseRepliesAreLostAreSentAgain) {
  Lease lease = one_->hold("a", 1500ms);
  LossWatch loss(lease);
  const int drop =
      proxy_->add({.kind = Fault::Kind::kDropReplies, .containing = "{a}", .times = 1});
  ASSERT_TRUE(proxy_->wait_for_hits(drop));
  EXPECT_TRUE(one_->journal().wait_for("renewal failed, will try again"));
  EXPECT_TRUE(lease.renew());
  EXPECT_FALSE(loss.told());
}

// Nothing was sent when the server said no at the door.
TEST_F(RedisWireFaultsTest, ARefusedConnectionIsUnavailableAndLeavesNothing) {
  ASSERT_TRUE(one_->hold("warm", 5s).release());
  proxy_->refuse(true);
  proxy_->reset_all();
  const Error refused = one_->refusal("a");
  EXPECT_EQ(refused.code(), Errc::kUnavailable) << refused.message();
  proxy_->refuse(false);
  EXPECT_TRUE(other_->try_hold("a", 5s));
}

// The reply is cut off, and then the server is gone: what was applied may not be called "not".
TEST_F(RedisWireFaultsTest, AnOutcomeStaysUnknownWhenTheServerCannotBeReachedAfterwards) {
  ASSERT_TRUE(one_->hold("warm", 5s).release());
  const int hold = proxy_->add({.kind = Fault::Kind::kDropReplies, .containing = "{a}"});
  Waiter waiter(*one_, "a", 1s);
  ASSERT_TRUE(proxy_->wait_for_hits(hold));
  proxy_->refuse(true);
  proxy_->reset_all();
  const auto lease = waiter.take();
  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().code(), Errc::kOutcomeUnknown) << lease.error().message();
}

TEST_F(RedisWireFaultsTest, AnAcquireThatIsDoubledAfterItsReleaseIsRefused) {
  const int acquire = proxy_->add({.kind = Fault::Kind::kDelay, .containing = "{a}"});
  Lease lease = one_->hold("a", 10s);
  ASSERT_TRUE(proxy_->wait_for_hits(acquire));
  const Token token = lease.token();
  ASSERT_TRUE(lease.release());
  // The owner's text stands in acquires only.
  ASSERT_TRUE(proxy_->replay("\"host\""));
  ASSERT_TRUE(proxy_->wait_for([](const auto& stats) { return stats.copies_answered == 1; }));
  EXPECT_NE(proxy_->stats().copies_replies.find("gone"), std::string::npos)
      << proxy_->stats().copies_replies;
  auto next = other_->try_hold("a", 5s);
  ASSERT_TRUE(next) << "the double holds it for nobody";
  EXPECT_GT(next->token(), token);
}

TEST_F(RedisWireFaultsTest, AReleaseThatIsDoubledAfterTheNextGrantIsHarmless) {
  Lease lease = one_->hold("a", 10s);
  ASSERT_TRUE(lease.release());
  Lease next = one_->hold("a", 10s);
  ASSERT_TRUE(proxy_->replay("release"));
  ASSERT_TRUE(proxy_->wait_for([](const auto& stats) { return stats.copies_answered == 1; }));
  EXPECT_NE(proxy_->stats().copies_replies.find("gone"), std::string::npos)
      << proxy_->stats().copies_replies;
  expect_sole_holder(next);
  EXPECT_TRUE(next.release());
}

TEST_F(RedisWireFaultsTest, EverythingDoubledAllTheTimeChangesNothing) {
  proxy_->add({.kind = Fault::Kind::kDuplicate, .containing = "hf1:"});
  Token last{};
  for (int round = 0; round < 10; ++round) {
    Lease lease = one_->hold("a", 10s);
    EXPECT_GT(lease.token(), last);
    last = lease.token();
    Waiter waiter(*other_, "a", 10s);
    waiter.await_queued();
    EXPECT_TRUE(lease.renew());
    EXPECT_TRUE(lease.release());
    Lease next = waiter.grant();
    EXPECT_GT(next.token(), last);
    last = next.token();
    EXPECT_TRUE(next.release());
  }
}

// --- The connection that pushes come over.

class SubscriberFaultsTest : public RedisWireFaultsTest {
 protected:
  static constexpr milliseconds kPoll = 1s;
};

TEST_F(SubscriberFaultsTest, AKilledSubscriptionIsMadeAnewAndTheNextHandoffIsPushed) {
  Lease lease = one_->hold("a", 30s);
  Waiter waiter(*other_, "a", 30s);
  waiter.await_queued();
  ASSERT_TRUE(await_subscribers(*server_, 2));
  ASSERT_GE(server_->client_kill("pubsub"), 1);
  ASSERT_TRUE(await_subscribers(*server_, 2)) << "not resubscribed";
  const std::int64_t released = host_boot_ns();
  ASSERT_TRUE(lease.release());
  Lease next = waiter.grant();
  EXPECT_LT(waiter.at() - released, ns(kPoll / 2)) << "it was polled for";
}

// The push of a break goes to nobody then. No renewal is due for minutes.
void expect_told_of_break(const Lease& lease, LossWatch& loss) {
  EXPECT_NE(loss.await(60s), 0);
  ASSERT_TRUE(lease.loss());
  EXPECT_EQ(lease.loss()->code(), Errc::kBroken);
  EXPECT_NE(lease.loss()->message().find("stuck since noon"), std::string::npos);
}

// As a word of a request: a script names the command, too.
constexpr const char* kSubscribe = "\r\nSUBSCRIBE\r\n";

TEST_F(SubscriberFaultsTest, ABreakBeforeTheSubscriptionStandsIsTold) {
  const int hold = proxy_->add({.kind = Fault::Kind::kHold, .containing = kSubscribe});
  Peer late(server_->url({.port = proxy_->port()}));
  ASSERT_TRUE(proxy_->wait_for_hits(hold));
  Lease lease = late.hold("a", 20min);
  LossWatch loss(lease);
  ASSERT_TRUE(other_->client().break_lock("a", lease.token(), "stuck since noon"));
  EXPECT_FALSE(loss.told());
  proxy_->remove(hold);
  expect_told_of_break(lease, loss);
}

TEST_F(SubscriberFaultsTest, ABreakWhileTheSubscriptionIsMadeAnewIsTold) {
  Lease lease = one_->hold("a", 20min);
  LossWatch loss(lease);
  ASSERT_TRUE(await_subscribers(*server_, 2));
  const int hold = proxy_->add({.kind = Fault::Kind::kHold, .containing = kSubscribe});
  proxy_->close_all(kSubscribe);
  ASSERT_TRUE(proxy_->wait_for_hits(hold));
  ASSERT_TRUE(other_->client().break_lock("a", lease.token(), "stuck since noon"));
  EXPECT_FALSE(loss.told());
  proxy_->remove(hold);
  expect_told_of_break(lease, loss);
}

// Whatever falls between the handoff and the new subscription is asked for.
TEST_F(SubscriberFaultsTest, ASubscriptionThatDiesInTheHandoffCostsOnePollAtMost) {
  for (int round = 0; round < 8; ++round) {
    Lease lease = one_->hold("a", 30s);
    Waiter waiter(*other_, "a", 30s);
    waiter.await_queued();
    ASSERT_TRUE(await_subscribers(*server_, 2));
    // The release is in the middle of the way while the subscriptions die.
    const int hold = proxy_->add({.kind = Fault::Kind::kHold, .containing = "release"});
    auto releasing = std::async(std::launch::async, [&] { return lease.release().has_value(); });
    ASSERT_TRUE(proxy_->wait_for_hits(hold));
    const std::int64_t released = host_boot_ns();
    if (round % 2 == 0) {
      server_->client_kill("pubsub");
      proxy_->remove(hold);
    } else {
      proxy_->remove(hold);
      server_->client_kill("pubsub");
    }
    Lease next = waiter.grant();
    EXPECT_LT(waiter.at() - released, ns(kPoll + 500ms)) << "round " << round;
    EXPECT_TRUE(releasing.get());
    EXPECT_TRUE(next.release());
  }
}

// The answer to a heartbeat that was given before the handoff and comes after its push.
TEST_F(SubscriberFaultsTest, AnOldAnswerThatSaysWaitingDoesNotEndTheLease) {
  Lease lease = other_->hold("a", 30s);
  Waiter waiter(*one_, "a", 30s);
  waiter.await_queued();
  const int late = proxy_->add(
      {.kind = Fault::Kind::kHold, .direction = Direction::kToClient, .containing = "waiting"});
  ASSERT_TRUE(proxy_->wait_for_hits(late));
  ASSERT_TRUE(lease.release());
  Lease next = waiter.grant();
  LossWatch loss(next);
  proxy_->remove(late);
  EXPECT_TRUE(next.renew()) << one_->journal().all();
  EXPECT_FALSE(loss.told());
  EXPECT_TRUE(next.release());
}

TEST_F(SubscriberFaultsTest, WithoutAnySubscriptionTheGrantIsFoundByThePoll) {
  Lease lease = other_->hold("a", 30s);
  Waiter waiter(*one_, "a", 30s);
  waiter.await_queued();
  const int mute = proxy_->add({.kind = Fault::Kind::kBlackhole,
                                .direction = Direction::kToClient,
                                .containing = "granted"});
  const std::int64_t released = host_boot_ns();
  ASSERT_TRUE(lease.release());
  Lease next = waiter.grant();
  EXPECT_LT(waiter.at() - released, ns(kPoll + 500ms));
  EXPECT_EQ(proxy_->stats().hits[mute], 1U);
}

}  // namespace
}  // namespace holdfast::faults
