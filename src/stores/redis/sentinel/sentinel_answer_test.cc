#include "src/stores/redis/sentinel/sentinel_answer.h"

#include <gtest/gtest.h>

namespace holdfast::stores::redis {
namespace {

using Kind = Reply::Kind;

Reply list(const std::vector<std::string>& words) {
  Reply reply{Kind::kArray, 0, "", {}};
  for (const std::string& word : words) reply.items.push_back({Kind::kText, 0, word, {}});
  return reply;
}

Reply error_reply(std::string text) { return {Kind::kError, 0, std::move(text), {}}; }

const Reply kMaster = list({"name", "m", "ip", "10.0.0.9", "port", "9", "config-epoch", "7"});
const Reply kAddress = list({"10.0.0.1", "6379"});

Result<SentinelAnswer> answer(const Reply& master, const Reply& address) {
  return sentinel_answer(master, address, "redis://s1:26379", "m");
}

TEST(SentinelAnswerTest, TheEpochComesFromTheRecordAndTheAddressFromTheLaterAnswer) {
  const auto got = answer(kMaster, kAddress);
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_EQ(*got, (SentinelAnswer{"10.0.0.1", 6379, 7}));
}

TEST(SentinelAnswerTest, AnUnknownNameIsTheUrlsFault) {
  const Reply nobody{Kind::kNil, 0, "", {}};
  const auto got = answer(error_reply("ERR No such master with that name"), nobody);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), Errc::kInvalidArgument);
  EXPECT_NE(got.error().message().find("'m': correct primary="), std::string::npos);
}

TEST(SentinelAnswerTest, WhatIsNoSentinelsAnswerIsRefused) {
  const std::pair<Reply, Reply> strange[] = {
      {error_reply("ERR unknown command 'SENTINEL'"), kAddress},
      {kMaster, {Kind::kNil, 0, "", {}}},
      {list({"config-epoch"}), kAddress},
      {list({"config-epoch", "-1"}), kAddress},
      {kMaster, list({"", "6379"})},
      {kMaster, list({"10.0.0.1", "0"})},
      {kMaster, list({"10.0.0.1", "65536"})},
  };
  for (const auto& [master, address] : strange) {
    const auto got = answer(master, address);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code(), Errc::kUnavailable) << got.error().message();
  }
  const auto denied = answer(error_reply("NOAUTH Authentication required."), kAddress);
  EXPECT_EQ(denied.error().code(), Errc::kPermissionDenied);
}

const SentinelAnswer kOld{"a", 1, 3};
const SentinelAnswer kNew{"b", 1, 4};

TEST(SentinelChoiceTest, TheHighestEpochCountsHoweverManySayOtherwise) {
  EXPECT_EQ(choose({kOld, kOld, kNew}, std::nullopt), kNew);
  EXPECT_EQ(choose({kNew, kOld, kOld}, kOld), kNew);
}

TEST(SentinelChoiceTest, NeverReturnsToALowerEpoch) {
  EXPECT_EQ(choose({kOld, kOld, kOld}, kNew), std::nullopt);
  EXPECT_EQ(choose({}, kNew), std::nullopt);
  EXPECT_EQ(choose({}, std::nullopt), std::nullopt);
  EXPECT_EQ(choose({kOld, kNew}, kNew), kNew);
}

TEST(SentinelChoiceTest, AmongEqualEpochsTheCurrentAddressStays) {
  const SentinelAnswer other{"c", 1, 4};
  EXPECT_EQ(choose({other, other, kNew}, kNew), kNew);
  EXPECT_EQ(choose({kNew, other, other}, std::nullopt), other);
  // Nobody says the current address any more.
  EXPECT_EQ(choose({other, other}, kNew), other);
}

}  // namespace
}  // namespace holdfast::stores::redis
