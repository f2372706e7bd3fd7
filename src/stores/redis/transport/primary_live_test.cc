// Connections follow their primary: two real servers, and a primary that moves from one to the
// other when the test says so.
#include "src/stores/redis/transport/primary.h"

#include <atomic>
#include <string>

#include <gtest/gtest.h>

#include "src/stores/redis/transport/direct_link.h"
#include "src/stores/redis/transport/subscriber.h"
#include "src/stores/redis/transport/test_wire.h"

namespace holdfast::stores::redis::testing {
namespace {

class MovingPrimary final : public Primary {
 public:
  explicit MovingPrimary(std::uint16_t port) { move_to(port); }

  void move_to(std::uint16_t port) {
    port_ = port;
    switch_to(generation() + 1);
  }
  bool proves_role() const noexcept override { return true; }
  Location cached() const override {
    RedisAddress address;
    address.port = port_;
    return {Resolver(address).cached().endpoints, generation()};
  }
  void refresh(std::function<void(Result<Location>)> done) override { done(cached()); }

 private:
  std::string late() const override { return "late"; }

  std::atomic<std::uint16_t> port_ = 0;
};

class PrimaryLiveTest : public ::testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_REDIS(); }

  // At server `a`.
  void make(const RedisServer& a) {
    primary_ = std::make_shared<MovingPrimary>(a.port());
    auto remote = std::make_shared<Remote>();
    remote->primary = primary_;
    remote_ = std::move(remote);
  }
  static std::string name_at(RedisServer& server, const char* name) {
    server.must({"SET", "who", name});
    return name;
  }

  TestLoop loop_;
  std::shared_ptr<MovingPrimary> primary_;
  RemotePtr remote_;
};

TEST_F(PrimaryLiveTest, ThePipelineFollowsTheSwitchAtOnce) {
  RedisServer a;
  RedisServer b;
  make(a);
  const std::string at_a = name_at(a, "a");
  const std::string at_b = name_at(b, "b");
  Pipeline pipe(loop_.io, remote_);
  EXPECT_EQ(said(ask(pipe, {"GET", "who"})), at_a);
  a.reset_counts();
  a.pause();
  // The old primary does not answer, and its answer must not be waited for.
  auto never = send(pipe, {"SET", "who", "late"}, kSoon);
  ASSERT_TRUE(eventually([&] { return pipe.counts().commands == 2; }));
  const auto begin = BootClock::now();
  primary_->move_to(b.port());
  EXPECT_EQ(code_of(never.wait()), "kOutcomeUnknown");
  EXPECT_EQ(said(ask(pipe, {"GET", "who"})), at_b);
  EXPECT_LT(BootClock::now() - begin, kSoon / 2);
  a.resume();
  // The request that was under way, and nothing after it.
  EXPECT_TRUE(a.eventually([](RedisServer& server) { return server.command_count("set") == 1; }));
  EXPECT_EQ(a.command_count("get"), 0);
}

TEST_F(PrimaryLiveTest, ABlockedCallOfADirectLinkEndsWithTheSwitch) {
  RedisServer a;
  RedisServer b;
  make(a);
  const std::string at_b = name_at(b, "b");
  DirectLink link(remote_);
  const auto call = [&](const std::vector<std::string_view>& args) -> Result<Reply> {
    auto replies = link.try_take().value().call(wire_of(args), 1, BootClock::now() + kSoon);
    if (!replies) return replies.error();
    return replies->at(0);
  };
  ASSERT_EQ(said(call({"PING"})), "PONG");
  a.reset_counts();
  std::jthread mover([&] {
    // Blocked at the server: BLPOP has no end of its own here.
    EXPECT_TRUE(a.eventually(
        [](RedisServer& server) { return server.info("clients", "blocked_clients") == "1"; }));
    primary_->move_to(b.port());
  });
  EXPECT_EQ(code_of(call({"BLPOP", "nothing", "0"})), "kOutcomeUnknown");
  mover.join();
  EXPECT_EQ(said(call({"GET", "who"})), at_b);
}

TEST_F(PrimaryLiveTest, ADirectLinkDoesNotUseAConnectionOfAnEarlierPrimary) {
  RedisServer a;
  RedisServer b;
  make(a);
  DirectLink link(remote_);
  const auto incr = [&] {
    auto replies = link.try_take().value().call(wire_of({"INCR", "n"}), 1, BootClock::now() + 10s);
    return replies ? said(replies->at(0)) : replies.error().message();
  };
  EXPECT_EQ(incr(), "1");
  EXPECT_EQ(incr(), "2");
  primary_->move_to(b.port());
  EXPECT_EQ(incr(), "1");
  EXPECT_EQ(a.must({"GET", "n"}).text, "2");
}

TEST_F(PrimaryLiveTest, TheSubscriptionMovesAndTellsThatMessagesMayBeMissed) {
  RedisServer a;
  RedisServer b;
  make(a);
  std::atomic<int> again = 0;
  std::atomic<int> messages = 0;
  Subscriber subscriber(
      loop_.io, remote_, "news",
      {[&](std::string_view) { ++messages; }, [&](bool repeated) { again += repeated; }, {}});
  Awaited<Result<void>> subscribed;
  subscriber.ensure(BootClock::now() + 10s,
                    [subscribed](const Result<void>& got) mutable { subscribed.give(got); });
  ASSERT_EQ(code_of(subscribed.wait()), "a value");
  primary_->move_to(b.port());
  ASSERT_TRUE(eventually([&] { return again == 1; }));
  EXPECT_EQ(b.must({"PUBLISH", "news", "new"}).integer, 1);
  EXPECT_TRUE(eventually([&] { return messages == 1; }));
  EXPECT_TRUE(a.eventually(
      [](RedisServer& server) { return server.command({"PUBLISH", "news", "old"}).integer == 0; }));
  EXPECT_EQ(messages, 1);
}

TEST_F(PrimaryLiveTest, AReplicaIsNotTrusted) {
  RedisServer a;
  RedisServer replica({.replica_of = &a});
  ASSERT_TRUE(replica.eventually(
      [](RedisServer& server) { return server.info("replication", "master_link_status") == "up"; }));
  make(replica);
  Pipeline pipe(loop_.io, remote_);
  const auto asked = ask(pipe, {"GET", "who"});
  ASSERT_EQ(code_of(asked), "kUnavailable");
  EXPECT_NE(asked.error().message().find("is a replica"), std::string::npos)
      << asked.error().message();
  DirectLink link(remote_);
  const auto called =
      link.try_take().value().call(wire_of({"GET", "who"}), 1, BootClock::now() + 10s);
  EXPECT_EQ(code_of(called), "kUnavailable");
  EXPECT_EQ(replica.command_count("get"), 0);
}

}  // namespace
}  // namespace holdfast::stores::redis::testing
