#include "tests/support/redis_cluster.h"

#include <gtest/gtest.h>

namespace holdfast::support {
namespace {

TEST(RedisClusterTest, SlotsMoveWithTheirKeysAndReplicasTakeOver) {
  HOLDFAST_NEEDS_REDIS();
  RedisCluster cluster({.replicas = 1});
  ASSERT_EQ(cluster.size(), 6U);
  const int slot = cluster.slot_of("{a}");
  const std::size_t from = cluster.owner(slot);
  const std::size_t to = (from + 1) % cluster.primaries();
  cluster.node(from).must({"MSET", "{a}", "1", "{a}b", "2"});
  cluster.move_slot(slot, to);
  EXPECT_EQ(cluster.owner(slot), to);
  EXPECT_EQ(cluster.node(to).must({"GET", "{a}b"}).text, "2");
  EXPECT_EQ(cluster.node(from).command({"GET", "{a}"}).error_code(), "MOVED");

  const std::size_t replica = cluster.replica_of(to);
  cluster.hand_over(replica);
  cluster.await_owner(slot, replica);
  EXPECT_EQ(cluster.node(replica).must({"GET", "{a}"}).text, "1");
  cluster.node(replica).kill9();
  cluster.take_over(to);
  cluster.await_owner(slot, to);
  EXPECT_EQ(cluster.node(to).must({"GET", "{a}"}).text, "1");
}

}  // namespace
}  // namespace holdfast::support
