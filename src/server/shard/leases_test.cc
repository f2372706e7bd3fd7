// Leases in a shard: who is counted.
#include <gtest/gtest.h>

#include "src/server/testing/shard_rig.h"

namespace holdfast::server {
namespace {

using testing::ShardRig;

TEST(ShardLeasesTest, HoldersAndWaitersAreCountedWhenTheyAreCommitted) {
  ShardRig rig;
  rig.ask(rig.acquire("a", 1));
  rig.ask(rig.acquire("a", 2));
  EXPECT_EQ(rig.shard().holders(), 0U);
  EXPECT_EQ(rig.shard().waiters(), 0U);
  rig.commit();
  EXPECT_EQ(rig.shard().holders(), 1U);
  EXPECT_EQ(rig.shard().waiters(), 1U);
  rig.ask(machine::Release{"a", {1, 1}, {}});
  EXPECT_EQ(rig.shard().waiters(), 1U);
  rig.commit();
  EXPECT_EQ(rig.shard().holders(), 1U);
  EXPECT_EQ(rig.shard().waiters(), 0U);
}

}  // namespace
}  // namespace holdfast::server
