// The records of a Redis Cluster: slots that move, a primary that is lost.
#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/client/ask.h"
#include "tests/support/eventually.h"
#include "tests/support/redis_cluster.h"

namespace holdfast::testing {
namespace {

using namespace std::chrono_literals;
using base::BootClock;
using support::RedisCluster;
using ::testing::AnyOf;
using ::testing::HasSubstr;

base::BootInstant soon() { return BootClock::now() + 20s; }

std::unique_ptr<port::Records> open(const std::string& url) {
  auto opened = client::open_records(url);
  EXPECT_TRUE(opened) << opened.error();
  return *std::move(opened);
}

class RedisClusterRecordsTest : public ::testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_REDIS(); }

  const std::string key_ = "hf1:{k}:record";
};

TEST_F(RedisClusterRecordsTest, ARecordFollowsItsSlot) {
  RedisCluster cluster;
  const auto records = open(cluster.url());
  auto version = *records->create("k", "1", soon());
  ASSERT_TRUE(version);
  const int slot = cluster.slot_of(key_);
  for (int i = 0; i < 3; ++i) {
    cluster.move_slot(slot, (cluster.owner(slot) + 1) % cluster.size());
    EXPECT_EQ((*records->read("k", soon()))->text, "1") << i;
    version = *records->replace("k", *version, "1", soon());
    ASSERT_TRUE(version);
  }
  EXPECT_EQ((*open(cluster.url())->read("k", soon()))->version, *version);
}

// The node that loses the slot does not have the record any more, and the one that gets it may not
// have it yet: nobody may take it for a missing one.
TEST_F(RedisClusterRecordsTest, ASlotThatMovesIsNotAnsweredFor) {
  RedisCluster cluster;
  const auto records = open(cluster.url());
  const auto version = *records->create("k", "1", soon());
  ASSERT_TRUE(version);
  const int slot = cluster.slot_of(key_);
  const std::size_t from = cluster.owner(slot);
  const std::size_t to = (from + 1) % cluster.size();
  cluster.open_move(slot, to);
  const auto shortly = [] { return BootClock::now() + 200ms; };
  for (const bool moved : {false, true}) {
    if (moved) cluster.move_keys({key_}, from, to);
    EXPECT_EQ(records->read("k", shortly()).error().code(), Errc::kUnavailable) << moved;
    // The deadline may come while the answer is on its way.
    const auto refused = AnyOf(Errc::kUnavailable, Errc::kOutcomeUnknown);
    EXPECT_THAT(records->create("k", "2", shortly()).error().code(), refused) << moved;
    EXPECT_THAT(records->replace("k", *version, "2", shortly()).error().code(), refused) << moved;
  }
  cluster.close_move(slot, to);
  const auto found = *records->read("k", soon());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->text, "1");
  EXPECT_EQ(found->version, *version);
}

TEST_F(RedisClusterRecordsTest, APromotedReplicaIsFound) {
  RedisCluster cluster({.replicas = 1});
  const auto records = open(cluster.url("replicas=1"));
  const auto version = *records->create("k", "1", soon());
  ASSERT_TRUE(version);
  const int slot = cluster.slot_of(key_);
  const std::size_t before = cluster.owner(slot);
  cluster.await_replicas(before);
  cluster.node(before).kill9();
  EXPECT_EQ(records->read("k", BootClock::now() + 500ms).error().code(), Errc::kUnavailable);
  cluster.take_over(cluster.replica_of(before));
  std::optional<port::Record> found;
  ASSERT_TRUE(support::eventually([&] {
    const auto answer = records->read("k", BootClock::now() + 1s);
    if (answer) found = *answer;
    return answer.has_value();
  }));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->version, *version);
}

TEST_F(RedisClusterRecordsTest, ASingleServerIsNoNodeOfACluster) {
  support::RedisServer single;
  const auto opened =
      client::open_records("redis+cluster://127.0.0.1:" + std::to_string(single.port()));
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), Errc::kInvalidArgument);
  EXPECT_THAT(opened.error().message(), HasSubstr("no node of a cluster"));
}

}  // namespace
}  // namespace holdfast::testing
