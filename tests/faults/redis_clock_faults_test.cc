// The server's wall clock jumps: a declared cell. These tests show what happens
// then, and who is told.
#include "tests/faults/redis_harness.h"
#include "tests/support/clock_shift.h"

namespace holdfast::faults {
namespace {

class RedisClockFaultsTest : public RedisFaults {
 protected:
  void SetUp() override {
    RedisFaults::SetUp();
    if (IsSkipped()) return;
    server_.emplace(support::RedisOptions{.clock_shift_file = clock_.path()});
    one_.emplace(server_->url());
    other_.emplace(server_->url());
  }

  support::ClockShift clock_;
  std::optional<RedisServer> server_;
  std::optional<Peer> one_;
  std::optional<Peer> other_;
};

TEST_F(RedisClockFaultsTest, AheadTwoBelieveTheyHoldTheFirstIsToldWhenItRenewsAndTokensGrow) {
  Lease lease = one_->hold("a", 30s);
  Lease watched = one_->hold("long", 60s);
  ASSERT_TRUE(watched.renew());
  clock_.set(40s);
  Lease next = other_->hold("a", 30s);
  EXPECT_TRUE(lease.held()) << "the declared cell: it cannot know yet";
  EXPECT_GT(next.token(), lease.token());

  LossWatch loss(lease);
  const auto renewed = lease.renew();
  ASSERT_FALSE(renewed);
  EXPECT_EQ(renewed.error().code(), Errc::kLost);
  EXPECT_NE(loss.await(), 0);
  EXPECT_TRUE(one_->journal().wait_for("wall clock was set ahead by about 40 s"))
      << one_->journal().all();
  EXPECT_FALSE(lease.release());
  EXPECT_TRUE(next.renew());
  EXPECT_TRUE(watched.renew()) << "longer than the jump";
}

TEST_F(RedisClockFaultsTest, BackTheHolderGoesOnAndItsLockOutlivesItByItsLeaseOnly) {
  auto lease = std::make_optional(one_->hold("a", 900ms));
  LossWatch loss(*lease);
  ASSERT_TRUE(lease->renew());
  clock_.set(-100s);
  EXPECT_TRUE(lease->renew());
  EXPECT_TRUE(one_->journal().wait_for("wall clock was set back by about 100 s"))
      << one_->journal().all();
  const std::int64_t before = lease->deadline_boottime().count();
  let_pass_until(before + ns(300ms));
  EXPECT_TRUE(lease->held()) << "it was not renewed any more";
  EXPECT_FALSE(loss.told());
  EXPECT_FALSE(other_->try_hold("a", 900ms));

  const Token token = lease->token();
  lease->detach();  // As if it had died.
  const std::int64_t died = host_boot_ns();
  Lease next = other_->hold("a", 900ms);
  EXPECT_LT(host_boot_ns() - died, ns(2s));
  EXPECT_GT(next.token(), token);
}

// The same with a queue behind it, which is another way through the scripts.
TEST_F(RedisClockFaultsTest, BackTheWaitersKeepTheirPlacesAndGetTheLock) {
  Lease lease = one_->hold("a", 1500ms);
  LossWatch loss(lease);
  Waiter waiter(*other_, "a", 1500ms);
  waiter.await_queued();
  ASSERT_TRUE(lease.renew());
  clock_.set(-100s);
  ASSERT_TRUE(lease.renew());
  EXPECT_TRUE(other_->journal().wait_for("wall clock was set back by about 100 s"));
  let_pass_until(lease.deadline_boottime().count() + ns(300ms));
  EXPECT_TRUE(lease.held());
  EXPECT_FALSE(loss.told());
  EXPECT_FALSE(waiter.done_within(0ms)) << "two hold it";
  EXPECT_TRUE(lease.release());
  Lease next = waiter.grant(2s);
  EXPECT_GT(next.token(), lease.token());
  EXPECT_TRUE(next.renew());
}

// A lock without renewals stays taken for as long as the clock went back; it can be broken.
TEST_F(RedisClockFaultsTest, BackALockThatNobodyRenewsStaysAndCanBeBroken) {
  Lease lease = one_->hold("a", 1s);
  const Token token = lease.token();
  lease.detach();
  clock_.set(-100s);
  EXPECT_FALSE(other_->client().mutex("a").acquire({.wait = 1500ms, .ttl = 1s}));
  EXPECT_GT(other_->look("a").holders.at(0).time_left, 90s) << "who looks can see it";
  ASSERT_TRUE(other_->client().break_lock("a", token));
  EXPECT_GT(other_->hold("a", 1s).token(), token);
}

// It would be gone a week after it was set: renewals give it a new week, once an hour.
TEST_F(RedisClockFaultsTest, TheValueBesideALockThatIsHeldLivesOn) {
  auto leading = one_->client().election("boss").campaign("me", {.ttl = 20h});
  ASSERT_TRUE(leading);
  const std::string value = key_of("boss") + ":v";
  const auto days_left = [&] {
    return std::chrono::milliseconds(server_->must({"PTTL", value}).integer) / 24h;
  };
  server_->must({"PEXPIRE", value, "14400000"});
  ASSERT_TRUE(leading->lease().renew());
  clock_.set(61min);
  ASSERT_TRUE(leading->lease().renew());
  EXPECT_GE(days_left(), 6);

  Waiter candidate(*other_, "boss", 5s);  // With a queue behind it: another way through the script.
  candidate.await_queued();
  server_->must({"PEXPIRE", value, "14400000"});
  clock_.set(122min);
  ASSERT_TRUE(leading->lease().renew());
  EXPECT_GE(days_left(), 6);
  EXPECT_EQ(other_->client().election("boss").leader().value()->value, "me");
}

TEST_F(RedisClockFaultsTest, TheDoctorSeesThatTheClocksDiffer) {
  const auto finding = [&] {
    const DoctorReport report = one_->client().doctor().value();
    for (const Finding& each : report.findings) {
      if (each.topic == "clock") return each;
    }
    return Finding{};
  };
  EXPECT_EQ(finding().severity, Severity::kOk);
  clock_.set(40s);
  EXPECT_EQ(finding().severity, Severity::kWarning);
  EXPECT_NE(finding().what.find("ahead"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::faults
