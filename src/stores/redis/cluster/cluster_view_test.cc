#include "src/stores/redis/cluster/cluster_view.h"

#include <gtest/gtest.h>

namespace holdfast::stores::redis {
namespace {

using Slots = std::vector<std::pair<std::uint16_t, std::uint16_t>>;

std::vector<ClusterNode> view_of(const std::string& text) {
  auto view = parse_cluster_nodes(text);
  EXPECT_TRUE(view) << (view ? "" : view.error().message());
  return view ? *view : std::vector<ClusterNode>();
}

TEST(ClusterViewTest, AnAnswerTellsOwnersAndEpochs) {
  const auto view = view_of(
      "07c37 127.0.0.1:30004@31004,host4 slave e7d1e 0 1426238317239 4 connected\n"
      "67ed2 127.0.0.1:30002@31002 master - 0 1426238316232 2 connected 5461-10922\n"
      "e7d1e 127.0.0.1:30001@31001 myself,master - 0 0 9 connected 0-99 200 [93->-67ed2]\n"
      "a0 127.0.0.1:30005@31005 master,fail - 0 0 1 disconnected\n");
  ASSERT_EQ(view.size(), 4U);
  EXPECT_EQ(view[0].at.host, "127.0.0.1");
  EXPECT_EQ(view[0].at.port, 30004);
  EXPECT_EQ(view[0].at.name, "host4");
  EXPECT_FALSE(view[0].is_primary);
  EXPECT_EQ(view[1].slots, (Slots{{5461, 10922}}));
  EXPECT_EQ(view[1].epoch, 2U);
  EXPECT_FALSE(view[1].is_asked);
  EXPECT_TRUE(view[2].is_asked);
  EXPECT_EQ(view[2].slots, (Slots{{0, 99}, {200, 200}})) << "a slot on a move is not listed twice";
  EXPECT_TRUE(view[3].failed);
}

TEST(ClusterViewTest, ANodeThatDoesNotKnowItsAddressIsWhereItWasAsked) {
  const auto view = view_of("e7 :30001@31001 myself,master - 0 0 1 connected 0-16383\r\n");
  ASSERT_EQ(view.size(), 1U);
  EXPECT_EQ(view[0].at.host, "");
  EXPECT_EQ(view[0].at.port, 30001);
}

TEST(ClusterViewTest, AddressesOfVersionSixAndLaterFieldsAreRead) {
  const auto view = view_of(
      "e7 ::1:30001@31001,,shard-id=12 myself,master - 0 0 1 connected 0-16383\n"
      "e8 :0@0 master,noaddr - 0 0 1 disconnected\n"
      "e9 127.0.0.1:30002@31002 handshake - 0 0 0 connected\n");
  ASSERT_EQ(view.size(), 1U) << "without an address, or not joined";
  EXPECT_EQ(view[0].at.host, "::1");
  EXPECT_EQ(view[0].at.name, "");
}

TEST(ClusterViewTest, WhatIsNoAnswerIsAnError) {
  for (const char* text : {"", "OK", "e7 127.0.0.1 master - 0 0 1 connected\n",
                           "e7 127.0.0.1:1@2 master - 0 0 x connected 0-1\n",
                           "e7 127.0.0.1:1@2 master - 0 0 1 connected 5-1\n",
                           "e7 127.0.0.1:1@2 master - 0 0 1 connected 0-16384\n",
                           "e7 127.0.0.1:99999@2 master - 0 0 1 connected 0-1\n"}) {
    const auto view = parse_cluster_nodes(text);
    ASSERT_FALSE(view) << text;
    EXPECT_EQ(view.error().code(), Errc::kCorruptState);
  }
}

TEST(ClusterViewTest, ARedirectionNamesANode) {
  const auto to = redirected_to("MOVED 3999 127.0.0.1:6381");
  ASSERT_TRUE(to);
  EXPECT_EQ(to->host, "127.0.0.1");
  EXPECT_EQ(to->port, 6381);
  EXPECT_EQ(redirected_to("ASK 3999 :6381")->host, "") << "the host that was asked";
  EXPECT_EQ(redirected_to("MOVED 3999 [::1]:6381")->host, "::1");
  for (const char* text : {"MOVED", "MOVED 3999", "MOVED 3999 here", "MOVED 3999 a:0"}) {
    EXPECT_FALSE(redirected_to(text)) << text;
  }
}

}  // namespace
}  // namespace holdfast::stores::redis
