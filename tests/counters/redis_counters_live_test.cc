// Counters in the keys of a Redis that other programs raise, too.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/ids/store_counter.h"
#include "tests/counters/counters.h"
#include "tests/support/redis_server.h"

namespace holdfast::testing {
namespace {

using ids::StoreCounter;
using support::RedisServer;
using ::testing::HasSubstr;

class RedisCountersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_REDIS();
    server_ = std::make_unique<RedisServer>(support::RedisOptions{.appendonly = true});
    url_ = server_->url();
  }
  std::string value() { return server_->must({"GET", "orders"}).text; }

  std::unique_ptr<RedisServer> server_;
  std::string url_;
};

TEST_F(RedisCountersTest, OnlyCreateMakesACounter) {
  EXPECT_EQ(refusal(url_, "orders").code(), Errc::kInvalidArgument);
  EXPECT_TRUE(server_->must({"GET", "orders"}).is_nil());
  ASSERT_TRUE(StoreCounter::create(url_, "orders", 100));
  EXPECT_EQ(StoreCounter::create(url_, "orders").error().code(), Errc::kStoreInUse);
  EXPECT_EQ(StoreCounter::create(url_, "other", 0).error().code(), Errc::kUnsupported);
  EXPECT_EQ(number(*open_counter(url_, "orders", 5)), 100U);
  EXPECT_EQ(value(), "104");
}

TEST_F(RedisCountersTest, OtherProgramsRaiseTheSameKey) {
  server_->must({"SET", "orders", "9007199254740993"});  // 2^53 + 1: no number of Lua.
  const auto ids = open_counter(url_, "orders", 2);
  EXPECT_EQ(number(*ids), 9007199254740994U);
  EXPECT_EQ(server_->must({"INCR", "orders"}).integer, 9007199254740996);
  EXPECT_EQ(number(*ids), 9007199254740995U);
  EXPECT_EQ(number(*ids), 9007199254740997U);
}

TEST_F(RedisCountersTest, WhatIsNoCounterIsRefused) {
  server_->must({"RPUSH", "list", "a"});
  server_->must({"SET", "text", "abc"});
  server_->must({"SET", "brief", "1", "EX", "1000"});
  EXPECT_THAT(refusal(url_, "list").message(), HasSubstr("no string"));
  EXPECT_THAT(refusal(url_, "text").message(), HasSubstr("no whole number"));
  EXPECT_THAT(refusal(url_, "brief").message(), HasSubstr("PERSIST"));
  for (const char* name : {"list", "text", "brief"}) {
    EXPECT_EQ(refusal(url_, name).code(), Errc::kInvalidArgument) << name;
  }
}

TEST_F(RedisCountersTest, AClusterIsRefusedByName) {
  const Error why = refusal("redis+cluster://127.0.0.1:1", "orders");
  EXPECT_EQ(why.code(), Errc::kUnsupported);
  EXPECT_THAT(why.message(), HasSubstr("Redis Cluster"));
}

TEST_F(RedisCountersTest, AKeyThatIsGoneOrChangedEndsTheObject) {
  const std::vector<std::vector<std::string>> harms{{"FLUSHALL"},
                                                    {"SET", "orders", "2"},
                                                    {"SET", "orders", "-7"},
                                                    {"SET", "orders", "x"},
                                                    {"EXPIRE", "orders", "100"}};
  for (const auto& harm : harms) {
    server_->must({"SET", "orders", "100"});
    const auto ids = open_counter(url_, "orders", 1);
    EXPECT_EQ(number(*ids), 101U);
    server_->must(harm);
    EXPECT_EQ(ids->next().error().code(), Errc::kCorruptState) << harm.front();
    server_->must({"SET", "orders", "1000"});
    EXPECT_EQ(ids->next().error().code(), Errc::kCorruptState) << "it goes on";
  }
  server_->must({"DEL", "orders"});
  EXPECT_EQ(refusal(url_, "orders").code(), Errc::kInvalidArgument);
}

TEST_F(RedisCountersTest, TheLastNumberIsTheGreatestOfABigint) {
  server_->must({"SET", "orders", "9223372036854775805"});
  const auto ids = open_counter(url_, "orders", 10);
  EXPECT_EQ(number(*ids), 9223372036854775806U);
  EXPECT_EQ(number(*ids), 9223372036854775807U);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(ids->next().error().code(), Errc::kUnsupported);
}

TEST_F(RedisCountersTest, ALostReplyIsAGap) {
  ASSERT_TRUE(StoreCounter::create(url_, "orders"));
  const auto ids = open_counter(url_, "orders", 1, std::chrono::milliseconds(300));
  EXPECT_EQ(number(*ids), 1U);
  server_->pause();
  EXPECT_EQ(ids->next().error().code(), Errc::kUnavailable);
  server_->resume();
  const std::uint64_t next = number_in_the_end(*ids);
  EXPECT_TRUE(next == 2 || next == 3) << next;
  EXPECT_EQ(std::to_string(next), value());
}

TEST_F(RedisCountersTest, AReplicaIsNotAsked) {
  ASSERT_TRUE(StoreCounter::create(url_, "orders"));
  RedisServer replica({.replica_of = server_.get()});
  const Error why = refusal(replica.url(), "orders");
  EXPECT_EQ(why.code(), Errc::kUnavailable) << why;
  EXPECT_EQ(refusal(replica.url(), "none").code(), Errc::kUnavailable);
}

TEST_F(RedisCountersTest, SaysWhatItForgets) {
  ASSERT_TRUE(StoreCounter::create(url_, "orders"));
  EXPECT_THAT(open_counter(url_, "orders", 1)->guarantees().forgets, HasSubstr("fail-over"));
  const auto refused = StoreCounter::open(url_, "orders", {.require_durable = true});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::kUnsupported);
}

TEST_F(RedisCountersTest, AUserNeedsFewRights) {
  RedisServer guarded({.users = {"app on >secret resetkeys ~orders nocommands +ping +eval +get "
                                 "+pttl +incrby +setrange"}});
  guarded.must({"SET", "orders", "5"});
  const std::string url = guarded.url({.user = "app", .password = "secret"});
  EXPECT_EQ(number(*open_counter(url, "orders", 1)), 6U);
  EXPECT_EQ(refusal(url, "others").code(), Errc::kPermissionDenied);
}

#ifdef HOLDFAST_EXAMPLE
TEST_F(RedisCountersTest, TheExampleOfTheGuideRuns) {
  const std::string command = std::string(HOLDFAST_EXAMPLE) + " '" + url_ + "'";
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(value(), "100");
}
#endif

TEST_F(RedisCountersTest, KilledProcessesRepeatNothing) {
  ASSERT_TRUE(StoreCounter::create(url_, "orders"));
  killed_processes_repeat_nothing(url_, "orders");
}

}  // namespace
}  // namespace holdfast::testing
