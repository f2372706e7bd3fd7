// Renewals that hang: those of other leases go on.
#include "tests/faults/redis_harness.h"

namespace holdfast::faults {
namespace {

class RedisRenewalFaultsTest : public RedisFaults {
 protected:
  // Longer than the short leases, so that one request could outlast them.
  static constexpr milliseconds kRequest = 4s;
  static constexpr milliseconds kShort = 1500ms;

  void SetUp() override {
    RedisFaults::SetUp();
    if (IsSkipped()) return;
    server_.emplace();
    proxy_.emplace(
        support::ProxyOptions{.server_port = server_->port(), .framing = Framing::kResp});
    one_.emplace(server_->url({.port = proxy_->port()}),
                 Peer::Options{.request_timeout = kRequest});
  }

  // From now on no request about the lock "long" is answered, nor any behind it.
  int mute_long() {
    return proxy_->add({.kind = Fault::Kind::kDropReplies, .containing = "{long}"});
  }

  std::optional<RedisServer> server_;
  std::optional<FaultProxy> proxy_;
  std::optional<Peer> one_;
};

TEST_F(RedisRenewalFaultsTest, AHungRenewalCostsNoShorterLease) {
  Lease lasting = one_->hold("long", 60s);
  Lease held_before = one_->hold("before", kShort);
  LossWatch before(held_before);
  const int mute = mute_long();
  auto hung = std::async(std::launch::async, [&] { return lasting.renew().has_value(); });
  ASSERT_TRUE(proxy_->wait_for_hits(mute));
  Lease taken_meanwhile = one_->hold("meanwhile", kShort);
  LossWatch meanwhile(taken_meanwhile);
  EXPECT_EQ(before.await(kRequest), 0) << one_->journal().all();
  EXPECT_FALSE(meanwhile.told()) << one_->journal().all();
  EXPECT_FALSE(hung.get());
  EXPECT_TRUE(lasting.held());
  proxy_->remove(mute);
  EXPECT_TRUE(lasting.renew());
  EXPECT_TRUE(held_before.renew());
}

TEST_F(RedisRenewalFaultsTest, AHungAdoptionCostsNoLeaseAndIsTriedAgain) {
  Peer other(server_->url());
  Lease lasting = other.hold("long", 60s);
  Lease shorter = one_->hold("before", kShort);
  LossWatch loss(shorter);
  const int mute = mute_long();
  auto adopting = std::async(std::launch::async,
                             [&] { return one_->client().adopt(lasting.id(), {.ttl = 60s}); });
  ASSERT_TRUE(proxy_->wait_for_hits(mute, 2)) << "it was not tried again";
  proxy_->remove(mute);
  const auto adopted = adopting.get();
  EXPECT_TRUE(adopted) << adopted.error().message();
  EXPECT_FALSE(loss.told()) << one_->journal().all();
  EXPECT_TRUE(shorter.renew());
}

TEST_F(RedisRenewalFaultsTest, AnAdoptionThatIsNeverAnsweredEndsWithItsRequest) {
  Peer other(server_->url());
  Lease lasting = other.hold("long", 60s);
  Lease shorter = one_->hold("before", kShort);
  LossWatch loss(shorter);
  mute_long();
  const auto adopted = one_->client().adopt(lasting.id(), {.ttl = 60s});
  ASSERT_FALSE(adopted);
  EXPECT_EQ(adopted.error().code(), Errc::kOutcomeUnknown) << adopted.error().message();
  EXPECT_FALSE(loss.told()) << one_->journal().all();
}

}  // namespace
}  // namespace holdfast::faults
