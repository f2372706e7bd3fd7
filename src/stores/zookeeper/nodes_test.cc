#include "src/stores/zookeeper/nodes.h"

#include <gtest/gtest.h>

namespace holdfast::stores::zookeeper {
namespace {

TEST(ZookeeperNodesTest, NamesAreReadBackAndStayDistinct) {
  for (const std::string name : {"orders/42", "a%2Fb", ".", ".hidden", "\xc3\xa9", "{x}", "a b"}) {
    const std::string node = encode_name(name);
    EXPECT_EQ(node.find('/'), std::string::npos);
    EXPECT_NE(node.front(), '.');
    EXPECT_EQ(decode_name(node), name);
  }
  EXPECT_FALSE(decode_name("a%2f"));  // Not as we write it.
  EXPECT_FALSE(decode_name("%"));
  EXPECT_FALSE(decode_name(""));
}

contend::QueueEntry numbered(std::int32_t number) {
  contend::QueueEntry place;
  place.key = contend::key_for({1, 2}, machine::Mode::shared(), {});
  place.order = static_cast<std::uint32_t>(number);
  return place;
}

TEST(ZookeeperNodesTest, NodesAreReadBackAlsoBehindTheWrap) {
  for (const std::int32_t number : {0, 12, 2147483647, -2147483647 - 1, -1}) {
    const auto place = parse_node(node_of(numbered(number)));
    ASSERT_TRUE(place) << number;
    EXPECT_EQ(place->key, numbered(number).key);
    EXPECT_EQ(static_cast<std::int32_t>(static_cast<std::uint32_t>(place->order)), number);
  }
  for (const char* const node : {"v", "", "-", "lock-0000000001", "_c_1-lock-0000000001"}) {
    EXPECT_FALSE(parse_node(node)) << node;
  }
}

TEST(ZookeeperNodesTest, TheQueueIsInOrderAcrossTheWrap) {
  std::vector<contend::QueueEntry> queue{numbered(-2147483647 - 1), numbered(2147483647),
                                         numbered(2147483646)};
  sort_queue(queue);
  EXPECT_EQ(queue[0].order, 2147483646U);
  EXPECT_EQ(queue[2].order, 2147483648U);
}

TEST(ZookeeperNodesTest, TheServersThatVoteAreCounted) {
  EXPECT_EQ(voters_in(""), 0U);
  EXPECT_EQ(voters_in("server.1=a:1:2:participant;0.0.0.0:3\nserver.2=b:1:2:participant\n"
                      "server.3=c:1:2:observer;0.0.0.0:3\nversion=0"),
            2U);
}

}  // namespace
}  // namespace holdfast::stores::zookeeper
