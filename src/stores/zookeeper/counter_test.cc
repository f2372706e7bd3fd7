#include "src/stores/zookeeper/counter.h"

#include <gtest/gtest.h>

namespace holdfast::stores::zookeeper {
namespace {

TEST(ZookeeperCounterTest, TheNumberIsAtTheEndOfTheName) {
  EXPECT_EQ(*sequence_number("/app/orders/holdfast-0000000000"), 0U);
  EXPECT_EQ(*sequence_number("/app/orders-7/holdfast-2147483647"), 2147483647U);
}

TEST(ZookeeperCounterTest, AnOverflowOf32BitsIsAnError) {
  for (const char* node : {"/orders/holdfast--2147483648", "/orders/holdfast--000000001"}) {
    EXPECT_EQ(sequence_number(node).error().code(), Errc::kUnsupported) << node;
  }
  EXPECT_EQ(sequence_number("/orders/holdfast-").error().code(), Errc::kCorruptState);
  EXPECT_EQ(sequence_number("/orders/holdfast-99999999999").error().code(), Errc::kCorruptState);
}

}  // namespace
}  // namespace holdfast::stores::zookeeper
