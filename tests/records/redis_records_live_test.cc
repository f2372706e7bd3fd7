// The records of Redis servers: replicas, permissions, settings, a fail-over by Sentinels.
#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/client/ask.h"
#include "tests/support/eventually.h"
#include "tests/support/redis_sentinels.h"
#include "tests/support/redis_server.h"

namespace holdfast::testing {
namespace {

using namespace std::chrono_literals;
using base::BootClock;
using support::RedisServer;
using ::testing::AllOf;
using ::testing::HasSubstr;

base::BootInstant soon() { return BootClock::now() + 20s; }

std::unique_ptr<port::Records> open(const std::string& url) {
  auto opened = client::open_records(url);
  EXPECT_TRUE(opened) << opened.error();
  return *std::move(opened);
}

TEST(RedisRecordsTest, AReplicaIsNotAsked) {
  HOLDFAST_NEEDS_REDIS();
  RedisServer primary;
  RedisServer replica({.replica_of = &primary});
  ASSERT_TRUE(*open(primary.url())->create("k", "1", soon()));
  const auto records = open(replica.url());
  const auto found = records->read("k", soon());
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code(), Errc::kUnavailable) << found.error();
  EXPECT_FALSE(records->replace("k", 1, "2", soon()));
  EXPECT_FALSE(records->create("k", "2", soon()));
}

TEST(RedisRecordsTest, TheUserOfTheLocksMayKeepRecords) {
  HOLDFAST_NEEDS_REDIS();
  RedisServer server(
      {.users = {"holdfast on >secret resetkeys ~hf1:{team/* resetchannels &hf1:* nocommands +ping "
                 "+evalsha +eval +exists +get +set +del +info +config|get",
                 "guest on >secret resetkeys ~hf1:* nocommands +ping +eval +get"}});
  const auto records =
      open(server.url({.user = "holdfast", .password = "secret", .query = {{"ns", "team"}}}));
  const auto version = records->create("k", "1", soon());
  ASSERT_TRUE(version) << version.error();
  EXPECT_TRUE(*records->replace("k", **version, "2", soon()));
  EXPECT_EQ((*records->read("k", soon()))->text, "2");
  EXPECT_EQ(server.must({"TTL", "hf1:{team/k}:record"}).integer, -1);

  const auto guest = open(server.url({.user = "guest", .password = "secret"}));
  EXPECT_EQ(guest->create("k", "1", soon()).error().code(), Errc::kPermissionDenied);
  EXPECT_THAT(guest->forgets(), HasSubstr("not known"));
}

TEST(RedisRecordsTest, SaysWhatTheSettingsForget) {
  HOLDFAST_NEEDS_REDIS();
  RedisServer server({.maxmemory_policy = "allkeys-lru"});
  EXPECT_THAT(open(server.url())->forgets(),
              AllOf(HasSubstr("appendonly is off"), HasSubstr("allkeys-lru")));
  RedisServer lazy({.appendonly = true, .appendfsync = "everysec"});
  EXPECT_THAT(open(lazy.url())->forgets(), HasSubstr("appendfsync is everysec"));
}

TEST(RedisRecordsTest, AnAnsweredChangeSurvivesAKillWithASyncedFile) {
  HOLDFAST_NEEDS_REDIS();
  RedisServer server({.appendonly = true});
  const auto records = open(server.url());
  auto version = *records->create("k", "0", soon());
  for (int i = 1; i <= 5; ++i) version = *records->replace("k", *version, "5", soon());
  server.kill9();
  server.start();
  const auto found = records->read("k", soon());
  ASSERT_TRUE(found) << found.error();
  EXPECT_EQ((*found)->version, *version);
}

TEST(RedisRecordsTest, AChangeThatNoReplicaConfirmsIsUnknown) {
  HOLDFAST_NEEDS_REDIS();
  RedisServer server;
  const auto records =
      open(server.url({.query = {{"replicas", "1"}, {"replicas_timeout", "50ms"}}}));
  const auto made = records->create("k", "1", soon());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), Errc::kOutcomeUnknown) << made.error();
  EXPECT_EQ((*records->read("k", soon()))->text, "1");
}

TEST(RedisRecordsTest, AKeyOfOthersIsDamage) {
  HOLDFAST_NEEDS_REDIS();
  RedisServer server;
  const auto records = open(server.url());
  server.must({"SET", "hf1:{k}:record", "something else"});
  EXPECT_EQ(records->read("k", soon()).error().code(), Errc::kCorruptState);
}

TEST(RedisRecordsTest, SentinelsLeadToTheNextPrimary) {
  HOLDFAST_NEEDS_REDIS();
  support::RedisSentinels topology({.replicas = 1});
  const auto records = open(topology.url() + "&replicas=1");
  const auto version = records->create("k", "1", soon());
  ASSERT_TRUE(version && *version) << version.error();
  const std::size_t before = topology.primary_index();
  topology.server(before).kill9();
  topology.await_switch(before);
  std::optional<port::Record> found;
  ASSERT_TRUE(support::eventually([&] {
    const auto answer = records->read("k", BootClock::now() + 1s);
    if (answer) found = *answer;
    return answer.has_value();
  }));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->version, **version);
}

}  // namespace
}  // namespace holdfast::testing
