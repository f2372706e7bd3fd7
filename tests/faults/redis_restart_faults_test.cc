// The server dies and comes back, with its memory or without; keys and scripts go.
#include <algorithm>

#include "tests/faults/redis_harness.h"

namespace holdfast::faults {
namespace {

class RedisRestartFaultsTest : public RedisFaults {};

TEST_F(RedisRestartFaultsTest, ALockOutlivesAServerThatKeepsItsMemory) {
  RedisServer server({.appendonly = true});
  Peer one(server.url());
  Peer other(server.url());
  const Token before = [&] {
    Lease first = one.hold("a", 5s);
    const Token token = first.token();
    EXPECT_TRUE(first.release());
    return token;
  }();
  Lease lease = one.hold("a", 5s);
  LossWatch loss(lease);
  Waiter waiter(other, "a", 5s);
  waiter.await_queued();

  server.kill9();
  server.start();

  const auto renewed = lease.renew();
  EXPECT_TRUE(renewed) << renewed.error().message();
  EXPECT_TRUE(lease.held());
  EXPECT_EQ(one.look("a").holders.size(), 1U);
  EXPECT_FALSE(waiter.done_within(0ms)) << "two hold it";
  ASSERT_TRUE(lease.release());
  Lease next = waiter.grant();
  EXPECT_GT(lease.token(), before);
  EXPECT_GT(next.token(), lease.token());
  EXPECT_FALSE(loss.told());
  EXPECT_TRUE(other.journal().wait_for("the connection is lost"));
  EXPECT_TRUE(other.journal().wait_for("connected again"));
}

TEST_F(RedisRestartFaultsTest, WhoOnlyWatchesLearnsThatTheServerIsAway) {
  RedisServer server;
  Peer one(server.url());
  const auto watch = one.client().watch("", [](const LockEvent&) {});
  ASSERT_TRUE(watch);
  server.kill9();
  EXPECT_TRUE(one.journal().wait_for("sees nothing at present", 60s)) << one.journal().all();
}

// The declared cell: two believe that they hold. Tokens tell them apart.
TEST_F(RedisRestartFaultsTest, AServerThatForgetsCostsTheHolderItsLockAndTokensGrowAllTheSame) {
  RedisServer server;
  Peer one(server.url());
  Peer other(server.url());
  Lease lease = one.hold("a", 1500ms);
  LossWatch loss(lease);
  server.restart(Memory::kLost);

  Lease next = other.hold("a", 5s);
  EXPECT_GT(next.token(), lease.token());
  EXPECT_NE(loss.await(), 0);
  EXPECT_FALSE(lease.held());
  EXPECT_EQ(lease.loss()->code(), Errc::kLost) << lease.loss()->message();
  EXPECT_TRUE(one.journal().wait_for("was lost"));
  EXPECT_EQ(lease.release().error().code(), Errc::kLost);
  EXPECT_TRUE(next.renew()) << "the old holder's release has freed it";
  EXPECT_TRUE(next.release());
}

TEST_F(RedisRestartFaultsTest, AReleaseToAServerThatForgotTellsThatItWasNoLongerHeld) {
  RedisServer server;
  Peer one(server.url());
  Lease lease = one.hold("a", 30s);
  server.restart(Memory::kLost);
  const auto released = lease.release();
  ASSERT_FALSE(released);
  EXPECT_EQ(released.error().code(), Errc::kLost) << released.error().message();
}

TEST_F(RedisRestartFaultsTest, WhoWaitedWhenTheServerForgotQueuesAgain) {
  RedisServer server;
  Peer one(server.url());
  Peer other(server.url());
  Lease lease = one.hold("a", 30s);
  Waiter waiter(other, "a", 3s);
  waiter.await_queued();
  server.restart(Memory::kLost);
  Lease next = waiter.grant();
  EXPECT_GT(next.token(), lease.token());
  EXPECT_EQ(lease.renew().error().code(), Errc::kLost);
}

TEST_F(RedisRestartFaultsTest, FlushallCostsTheHolderItsLockAtTheNextRenewalAndTokensGrow) {
  RedisServer server;
  Peer one(server.url());
  Peer other(server.url());
  Lease lease = one.hold("a", 1500ms);
  LossWatch loss(lease);
  server.flushall();
  EXPECT_NE(loss.await(), 0);
  EXPECT_EQ(lease.loss()->code(), Errc::kLost);
  Lease next = other.hold("a", 5s);
  EXPECT_GT(next.token(), lease.token());
  EXPECT_EQ(lease.release().error().code(), Errc::kLost);
  EXPECT_TRUE(next.renew());
}

class ForgottenScriptTest : public RedisRestartFaultsTest {
 protected:
  void SetUp() override {
    RedisRestartFaultsTest::SetUp();
    if (IsSkipped()) return;
    server_.emplace();
  }

  // Runs it on a server that knows no script; and the script was sent whole.
  template <typename Step>
  void expect_fallback(const char* what, const Step& step) {
    server_->script_flush();
    const std::int64_t before = server_->command_count("eval");
    step();
    EXPECT_GT(server_->command_count("eval"), before) << what;
  }

  std::optional<RedisServer> server_;
};

TEST_F(ForgottenScriptTest, EveryPathSendsItWhole) {
  Peer one(server_->url());
  Peer other(server_->url());
  std::optional<Lease> lease;
  std::optional<Waiter> waiter;
  expect_fallback("acquire inline", [&] { lease = one.hold("a", 30s); });
  expect_fallback("try", [&] { EXPECT_FALSE(other.try_hold("a", 30s)); });
  expect_fallback("acquire by the loop", [&] {
    waiter.emplace(other, "a", 30s);
    waiter->await_queued();
  });
  expect_fallback("renew", [&] { EXPECT_TRUE(lease->renew()); });
  expect_fallback("inspect", [&] { EXPECT_EQ(one.look("a").waiters.size(), 1U); });
  expect_fallback("list", [&] { EXPECT_EQ(one.client().list("").value().size(), 1U); });
  expect_fallback("release", [&] { EXPECT_TRUE(lease->release()); });
  lease = waiter->grant();
  expect_fallback("break", [&] { EXPECT_TRUE(one.client().break_lock("a", lease->token())); });
  expect_fallback("cancel", [&] {
    lease = one.hold("a", 30s);
    Waiter brief(other, "a", AcquireOptions{.wait = 100ms, .ttl = 30s});
    brief.await_queued();
    server_->script_flush();
    EXPECT_EQ(brief.take().error().code(), Errc::kTimedOut);
    EXPECT_TRUE(one.look("a").waiters.empty());
  });
}

// More than one script in one write, and none is known.
TEST_F(ForgottenScriptTest, ManyLocksAreRenewedAllTheSame) {
  constexpr int kLocks = 300;
  Peer one(server_->url());
  std::vector<Lease> leases;
  for (int i = 0; i < kLocks; ++i) leases.push_back(one.hold("n" + std::to_string(i), 6s));
  server_->script_flush();
  const std::int64_t flushed = host_boot_ns();
  EXPECT_TRUE(server_->eventually([&](RedisServer&) {
    return std::all_of(leases.begin(), leases.end(), [&](const Lease& lease) {
      return lease.deadline_boottime().count() > flushed + ns(6s);
    });
  })) << one.journal().all();
  for (const Lease& lease : leases) EXPECT_TRUE(lease.held()) << lease.name();
}

// --- What is stored is not what was written.

// One lock of many, which are renewed together.
class ForeignRecordTest : public ForgottenScriptTest {
 protected:
  static constexpr int kOthers = 20;

  void SetUp() override {
    ForgottenScriptTest::SetUp();
    if (IsSkipped()) return;
    one_.emplace(server_->url());
    for (int i = 0; i <= kOthers; ++i) {
      if (i == kOthers / 2) bad_ = one_->hold("bad", 1500ms);
      good_.push_back(one_->hold("good" + std::to_string(i), 1500ms));
      losses_.push_back(std::make_unique<LossWatch>(good_.back()));
    }
  }

  void expect_that_others_hold() {
    EXPECT_FALSE(one_->journal().wait_for("'good", 0ms)) << one_->journal().all();
    for (std::size_t i = 0; i < good_.size(); ++i) {
      EXPECT_FALSE(losses_[i]->told()) << i;
      EXPECT_TRUE(good_[i].renew()) << i;
    }
  }

  std::optional<Peer> one_;
  std::vector<Lease> good_;
  std::vector<std::unique_ptr<LossWatch>> losses_;
  std::optional<Lease> bad_;
};

TEST_F(ForeignRecordTest, AKeyOfTheWrongTypeIsAnErrorOfThatLockOnly) {
  LossWatch loss(*bad_);
  server_->must({"DEL", key_of("bad")});
  server_->must({"RPUSH", key_of("bad"), "x"});

  const Error refused = Peer(server_->url()).refusal("bad");
  EXPECT_EQ(refused.code(), Errc::kCorruptState) << refused.message();
  EXPECT_NE(refused.message().find("'bad'"), std::string::npos) << refused.message();
  EXPECT_NE(loss.await(), 0) << "it could not be renewed";
  EXPECT_TRUE(one_->journal().wait_for("'bad'"));
  expect_that_others_hold();
  EXPECT_FALSE(bad_->release());
  EXPECT_EQ(server_->must({"LLEN", key_of("bad")}).integer, 1) << "what is not ours stays";
}

TEST_F(ForeignRecordTest, ALaterVersionsRecordIsRefusedByItsNumber) {
  LossWatch loss(*bad_);
  server_->must({"SET", key_of("bad"), "2 held 0000000000000007 and what else it says"});

  const Error refused = Peer(server_->url()).refusal("bad");
  EXPECT_EQ(refused.code(), Errc::kVersionMismatch) << refused.message();
  EXPECT_NE(refused.message().find("'bad'"), std::string::npos) << refused.message();
  EXPECT_NE(refused.message().find("format 2"), std::string::npos) << refused.message();
  EXPECT_NE(loss.await(), 0);
  expect_that_others_hold();
  EXPECT_FALSE(bad_->release());
  EXPECT_EQ(one_->client().inspect("bad").error().code(), Errc::kVersionMismatch);
  EXPECT_EQ(server_->must({"GET", key_of("bad")}).text.substr(0, 2), "2 ");
}

TEST_F(ForgottenScriptTest, ARecordOfNobodysIsRefused) {
  Peer one(server_->url());
  for (const char* text : {"", "x", "1 held", "1 held 0000000000000007 nobody", "1 many ",
                           "1 free ", "1 many 0000000000000007 e f 1 1"}) {
    server_->must({"SET", key_of("bad"), text});
    const Error refused = one.refusal("bad");
    EXPECT_EQ(refused.code(), Errc::kCorruptState) << "'" << text << "': " << refused.message();
    EXPECT_EQ(server_->must({"GET", key_of("bad")}).text, text);
  }
}

// An evicting server takes any of a lock's keys: the lock is free then, or goes on, but never
// stuck.
class LostPartTest : public ForgottenScriptTest, public testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Parts, LostPartTest, testing::Values("", ":t", ":h", ":w", ":q", ":m"),
                         [](const auto& each) {
                           const std::string part = each.param;
                           return part.empty() ? std::string("Record") : part.substr(1);
                         });

TEST_P(LostPartTest, LeavesALockThatWorks) {
  Peer one(server_->url());
  Peer other(server_->url());
  Lease lease = one.hold("a", 1500ms);
  Waiter waiter(other, "a", 1500ms);
  waiter.await_queued();
  server_->command({"DEL", key_of("a") + GetParam()});

  LossWatch loss(lease);
  static_cast<void>(lease.release());
  Lease next = waiter.grant();
  EXPECT_GT(next.token(), lease.token());
  EXPECT_TRUE(next.renew());
  EXPECT_FALSE(one.try_hold("a", 5s)) << "two hold it";
  EXPECT_TRUE(next.release());
  EXPECT_TRUE(one.try_hold("a", 5s));
}

}  // namespace
}  // namespace holdfast::faults
