#include "src/stores/holdfast/service_primary.h"

#include <string>

#include <gtest/gtest.h>

namespace holdfast::stores::holdfast {
namespace {

TEST(ServicePrimaryTest, ALaterTermEndsTheConnectionsOfAnEarlierOne) {
  ServicePrimary primary{redis::RedisAddress()};
  int switches = 0;
  const auto watch = primary.watch([&] { ++switches; });
  ASSERT_EQ(*primary.judge_term("HF1 j1 0 7-3fa2"), 7U);
  EXPECT_EQ(primary.generation(), 0U) << "the connection has to note it first";
  primary.enter(7);
  EXPECT_EQ(primary.generation(), 7U);
  EXPECT_EQ(primary.cached().generation, 7U);
  primary.enter(7);
  EXPECT_EQ(switches, 1);
  primary.enter(*primary.judge_term("HF1 j1 0 9"));
  EXPECT_EQ(primary.generation(), 9U);
  EXPECT_EQ(switches, 2);
}

TEST(ServicePrimaryTest, AnEarlierTermAndAnotherJournalAreRefused) {
  ServicePrimary primary{redis::RedisAddress()};
  primary.enter(*primary.judge_term("HF1 j1 0 7"));
  EXPECT_EQ(primary.judge_term("HF1 j1 0 6").error().code(), Errc::kUnavailable);
  const auto other = primary.judge_term("HF1 j2 0 8");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code(), Errc::kCorruptState) << "a wait for it would never end";
  EXPECT_NE(other.error().message().find("j2 instead of j1"), std::string::npos);
  EXPECT_EQ(primary.generation(), 7U);
}

TEST(ServicePrimaryTest, AnAnswerOfAnotherProtocolIsRefused) {
  ServicePrimary primary{redis::RedisAddress()};
  for (const char* text : {"", "OK", "HF2 j 0 1", "HF1 j 0", "HF1 j 0 x", "HF1 j 0 0", "HF1 j 1 1",
                           "HF1 j 0 -1", "HF1 j 0 1 more"}) {
    const auto judged = primary.judge_term(text);
    ASSERT_FALSE(judged) << text;
    EXPECT_EQ(judged.error().code(), Errc::kVersionMismatch) << text;
  }
}

TEST(ServicePrimaryTest, TheServerThatAnsweredLastIsTriedFirst) {
  redis::RedisAddress address;
  address.nodes = {{"127.0.0.1", 1}, {"127.0.0.1", 2}, {"::1", 3}};
  ServicePrimary primary{address};
  const auto order = [](const redis::Location& found) {
    std::string text;
    for (const redis::Endpoint& each : found.endpoints) text += each.display() + " ";
    return text;
  };
  EXPECT_EQ(order(primary.cached()), "127.0.0.1:1 127.0.0.1:2 [::1]:3 ");
  primary.prefer(primary.cached().endpoints[2]);
  EXPECT_EQ(order(primary.cached()), "[::1]:3 127.0.0.1:1 127.0.0.1:2 ");
  std::string refreshed;
  primary.refresh([&](const Result<redis::Location>& found) { refreshed = order(*found); });
  EXPECT_EQ(refreshed, "[::1]:3 127.0.0.1:1 127.0.0.1:2 ");
}

}  // namespace
}  // namespace holdfast::stores::holdfast
