#include "src/stores/redlock/url.h"

#include <gtest/gtest.h>

namespace holdfast::stores::redlock {
namespace {

Result<RedlockAddress> parse(const std::string& text) {
  auto url = *port::StoreUrl::parse(text);
  return parse_redlock_url(url);
}

TEST(RedlockUrlTest, TakesNodesOptionsAndDatabase) {
  const auto address = parse(
      "redlock://me:secret@c:3,a:1,b:2/4?node_timeout=20ms&timeout=40ms&longest_ttl=5s&tokens=no");
  ASSERT_TRUE(address) << address.error().message();
  ASSERT_EQ(address->nodes.size(), 3U);
  EXPECT_EQ(address->nodes[2].port, 3);
  EXPECT_EQ(address->nodes[0].db, 4U);
  EXPECT_EQ(address->nodes[1].user, "me");
  EXPECT_EQ(address->node_timeout, std::chrono::milliseconds(20));
  EXPECT_EQ(address->timeout, std::chrono::milliseconds(40));
  EXPECT_EQ(address->longest_ttl, std::chrono::seconds(5));
  EXPECT_FALSE(address->tokens);
  EXPECT_EQ(address->display(), "redlock://a:1,b:2,c:3/4");
}

TEST(RedlockUrlTest, TheClusterIsTheListAndWhatItsNodesEnforce) {
  const std::string one = parse("redlock://a,b,c")->cluster;
  EXPECT_EQ(one.size(), 40U);
  EXPECT_EQ(one, parse("redlock://c:6379,b,a?timeout=1s&longest_ttl=60s&tokens=yes")->cluster);
  const auto tunnels = parse("redlock://h:3,h:1,h:2?names=c:6379,a:6379,b:6379");
  ASSERT_TRUE(tunnels) << tunnels.error().message();
  EXPECT_EQ(one, tunnels->cluster);
  EXPECT_EQ(tunnels->names[0], "a:6379");
  EXPECT_EQ(tunnels->nodes[0].port, 1);
  EXPECT_EQ(tunnels->display(), "redlock://h:1,h:2,h:3");
  for (const char* const other :
       {"redlock://a,b,d", "redlock://a,b,c,d", "redlock://a,b,c/1",
        "redlock://a,b,c?names=a,b,d", "redlock://a,b,c?longest_ttl=61s",
        "redlock://a,b,c?tokens=no"}) {
    EXPECT_NE(one, parse(other)->cluster) << other;
  }
}

TEST(RedlockUrlTest, RefusesWhatIsNoCluster) {
  for (const char* const bad : {"redlock://a", "redlock://a,b", "redlock://a,b,b", "redlock:a,b,c",
                                "redlock://a,b,c,d,e,f,g,h,i,j", "redlock://a,b,c/x",
                                "redlock://a,b,c/1?db=2", "redlock://a,b,c?tokens=maybe",
                                "redlock://a,b,c?names=x,y", "redlock://a,b,c?names=x,y,x",
                                "redlock://a,b,c?names=x,y,z,u", "redlock://a,b,c?names=x,,z",
                                "redlock://a,b,c?tls_ca=/x", "redlock://a,b,c?node_timeout=0s"}) {
    const auto address = parse(bad);
    ASSERT_FALSE(address) << bad;
    EXPECT_EQ(address.error().code(), Errc::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace holdfast::stores::redlock
