#include "src/stores/redis/transport/handshake.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "src/stores/redis/transport/backoff.h"
#include "src/stores/redis/transport/failed_round.h"

namespace holdfast::stores::redis {
namespace {

using Kind = Reply::Kind;
using Step = Handshake::Step;

const Reply kOk{Kind::kStatus, 0, "OK", {}};
const Reply kPong{Kind::kStatus, 0, "PONG", {}};
Reply refusal(std::string text) { return {Kind::kError, 0, std::move(text), {}}; }

RedisAddress with_login() {
  RedisAddress address;
  address.user = "alice";
  address.password = "hunter2";
  address.db = 2;
  return address;
}

Step good_step(Handshake& handshake, const Reply& reply) {
  const auto step = handshake.on_reply(reply);
  if (step) return *step;
  ADD_FAILURE() << step.error().message();
  return Step::kMore;
}

TEST(HandshakeTest, AsksForNoMoreThanTheAddressNeeds) {
  Handshake plain{RedisAddress()};
  EXPECT_EQ(plain.requests(),
            "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$8\r\nholdfast\r\n*1\r\n$4\r\nPING\r\n");
  EXPECT_EQ(good_step(plain, kOk), Step::kMore);
  EXPECT_EQ(good_step(plain, kPong), Step::kReady);
  EXPECT_FALSE(plain.on_reply(kPong));  // Nothing was asked for.
}

TEST(HandshakeTest, LogsInFirstAndChoosesTheDatabase) {
  Handshake full(with_login());
  EXPECT_TRUE(full.requests().starts_with("*3\r\n$4\r\nAUTH\r\n$5\r\nalice\r\n$7\r\nhunter2\r\n"));
  EXPECT_NE(full.requests().find("$6\r\nSELECT\r\n$1\r\n2\r\n"), std::string::npos);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(good_step(full, kOk), Step::kMore);
  EXPECT_EQ(good_step(full, kPong), Step::kReady);
  RedisAddress password_only;
  password_only.password = "p";
  EXPECT_TRUE(Handshake(password_only).requests().starts_with("*2\r\n$4\r\nAUTH\r\n$1\r\np\r\n"));
}

TEST(HandshakeTest, AWrongPasswordIsPermissionDeniedWithoutItsText) {
  for (const char* answer : {"WRONGPASS invalid username-password pair or user is disabled.",
                             "ERR AUTH hunter2 called without any password configured"}) {
    Handshake handshake(with_login());
    const auto step = handshake.on_reply(refusal(answer));
    ASSERT_FALSE(step);
    EXPECT_EQ(step.error().code(), Errc::kPermissionDenied);
    EXPECT_EQ(step.error().message().find("hunter2"), std::string::npos);
  }
}

TEST(HandshakeTest, AMissingPasswordIsPermissionDenied) {
  Handshake handshake{RedisAddress()};
  EXPECT_EQ(good_step(handshake, refusal("NOAUTH Authentication required.")), Step::kMore);
  const auto step = handshake.on_reply(refusal("NOAUTH Authentication required."));
  ASSERT_FALSE(step);
  EXPECT_EQ(step.error().code(), Errc::kPermissionDenied);
}

TEST(HandshakeTest, RightsThatAreNotNeededMayBeMissing) {
  Handshake handshake{RedisAddress()};
  EXPECT_EQ(good_step(handshake, refusal("NOPERM no client|setname")), Step::kMore);
  EXPECT_EQ(good_step(handshake, refusal("NOPERM no ping")), Step::kReady);
}

TEST(HandshakeTest, AServerThatLoadsIsAskedAgain) {
  Handshake handshake{RedisAddress()};
  good_step(handshake, kOk);
  EXPECT_EQ(good_step(handshake, refusal("LOADING Redis is loading")), Step::kLoading);
  EXPECT_EQ(good_step(handshake, refusal("LOADING Redis is loading")), Step::kLoading);
  EXPECT_EQ(good_step(handshake, kPong), Step::kReady);
}

TEST(HandshakeTest, ADatabaseThatIsNotThereIsAnInvalidArgument) {
  RedisAddress address;
  address.db = 99;
  Handshake handshake(address);
  good_step(handshake, kOk);
  const auto step = handshake.on_reply(refusal("ERR DB index is out of range"));
  ASSERT_FALSE(step);
  EXPECT_EQ(step.error().code(), Errc::kInvalidArgument);
}

TEST(HandshakeTest, AFullServerSaysSoWhateverWasAsked) {
  Handshake handshake{RedisAddress()};
  const auto step = handshake.on_reply(refusal("ERR max number of clients reached"));
  ASSERT_FALSE(step);
  EXPECT_EQ(step.error().code(), Errc::kUnavailable);
}

TEST(BackoffTest, PausesGrowToTwoSecondsAndAreDrawnFromTheWholeRange) {
  using namespace std::chrono_literals;
  // The largest that can be drawn below each ceiling, and the smallest.
  Backoff backoff;
  for (const auto ceiling : {50ms, 100ms, 200ms, 400ms, 800ms, 1600ms, 2000ms, 2000ms}) {
    EXPECT_EQ(Backoff(backoff).next(0), 0ns);
    EXPECT_EQ(backoff.next(static_cast<std::uint64_t>(std::chrono::nanoseconds(ceiling).count())),
              ceiling);
  }
}

TEST(BackoffTest, TheLossOfAGoodConnectionIsFollowedByAShortPauseToo) {
  using namespace std::chrono_literals;
  constexpr std::uint64_t kHalf = 25'000'000;
  Backoff backoff;
  for (int i = 0; i < 8; ++i) backoff.after_loss(false, 0);
  EXPECT_EQ(Backoff(backoff).after_loss(false, 2'000'000'000), 2s);
  EXPECT_EQ(Backoff(backoff).after_loss(true, kHalf), 25ms);
  EXPECT_LE(backoff.after_loss(true, ~std::uint64_t{0}), 50ms);
}

TEST(BackoffTest, ARequestKeepsMostOfItsTime) {
  using namespace std::chrono_literals;
  EXPECT_EQ(Backoff::within(10s, 50ms), 50ms);
  EXPECT_EQ(Backoff::within(80ms, 2s), 10ms);
  EXPECT_EQ(Backoff::within(-1s, 2s), 0ms);
}

Reply role(const char* name) {
  return {Kind::kArray, 0, "", {{Kind::kText, 0, name, {}}, {Kind::kInteger, 0, "", {}}}};
}

TEST(HandshakeTest, AServerThatMayNotBeThePrimaryHasToSaySo) {
  Handshake good(RedisAddress(), /*proves_role=*/true);
  EXPECT_TRUE(good.requests().ends_with("*1\r\n$4\r\nROLE\r\n*1\r\n$4\r\nPING\r\n"));
  EXPECT_EQ(good_step(good, kOk), Step::kMore);
  EXPECT_EQ(good_step(good, role("master")), Step::kMore);
  EXPECT_EQ(good_step(good, kPong), Step::kReady);
}

TEST(HandshakeTest, AnythingButAPrimaryIsRefused) {
  const std::pair<Reply, Errc> answers[] = {
      {role("slave"), Errc::kUnavailable},
      {role("sentinel"), Errc::kUnavailable},
      {kOk, Errc::kUnavailable},
      {{Kind::kArray, 0, "", {}}, Errc::kUnavailable},
      {refusal("NOPERM this user has no permissions to run the 'role' command"),
       Errc::kPermissionDenied},
  };
  for (const auto& [answer, code] : answers) {
    Handshake handshake(RedisAddress(), /*proves_role=*/true);
    EXPECT_EQ(good_step(handshake, kOk), Step::kMore);
    const auto step = handshake.on_reply(answer);
    ASSERT_FALSE(step) << answer.text;
    EXPECT_EQ(step.error().code(), code) << step.error().message();
  }
}

TEST(HandshakeTest, OnlyAUrlWithoutTheLastLeaderIsAdvisedToNameAllServers) {
  for (const char* leader : {"a:1", "c:3"}) {
    RedisAddress address;
    address.lock_service = true;
    address.nodes = {{"a", 1}, {"b", 2}};
    Handshake handshake(address, /*proves_role=*/false, /*asks_term=*/true);
    EXPECT_EQ(good_step(handshake, kOk), Step::kMore);
    const auto step = handshake.on_reply(
        refusal(std::string("STANDBY this server stands by: ") + leader +
                " was last seen leading; name all servers in the URL, holdfast://A,B,C"));
    ASSERT_FALSE(step);
    EXPECT_TRUE(handshake.stands_by());
    const std::string& text = step.error().message();
    EXPECT_NE(text.find(std::string(leader) + " was last seen leading"), text.npos) << text;
    EXPECT_EQ(text.find("name all servers") == text.npos, leader[0] == 'a') << text;
  }
}

TEST(FailedRoundTest, TheStoreIsToldOnce) {
  const Error away(Errc::kUnavailable, "holdfast://a:1,b:2 (a:1): cannot connect");
  const Error standby(Errc::kUnavailable, "holdfast://a:1,b:2: cannot attach: it stands by");
  const Error none(Errc::kUnavailable, "not connected");
  FailedRound round;
  EXPECT_EQ(round.told(none).message(), none.message());
  round.add(standby, /*stands_by=*/true);
  EXPECT_EQ(round.told(none).message(), standby.message());
  round.add(away, /*stands_by=*/false);
  EXPECT_EQ(round.told(none).message(),
            "holdfast://a:1,b:2 (a:1): cannot connect; cannot attach: it stands by");
}

}  // namespace
}  // namespace holdfast::stores::redis
