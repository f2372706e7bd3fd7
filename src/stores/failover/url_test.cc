#include "src/stores/failover/url.h"

#include <string>

#include <gtest/gtest.h>

namespace holdfast::stores::failover {
namespace {

Result<ChainAddress> parse(const std::string& text) {
  return parse_chain_url(*port::StoreUrl::parse(text));
}

TEST(FailoverUrlTest, TheIdentityIsOfThePlacesInTheirOrder) {
  const auto one = parse("failover:?chain=redis://r:1&chain=etcd://e:2");
  const auto same = parse("failover:?chain=redis://user:secret@r:1%3Fdb%3D0&chain=etcd://e:2");
  const auto other = parse("failover:?chain=etcd://e:2&chain=redis://r:1");
  ASSERT_TRUE(one && same && other);
  EXPECT_EQ(one->chain.size(), 2U);
  EXPECT_EQ(one->identity, same->identity);
  EXPECT_NE(one->identity, other->identity);
}

TEST(FailoverUrlTest, ANameStandsInPlaceOfTheList) {
  const auto one = parse("failover:?chain=redis://r:1&chain=etcd://e:2&name=locks");
  const auto tunnel = parse("failover:?chain=redis://127.0.0.1:9&chain=etcd://e:2&name=locks");
  const auto longer = parse("failover:?chain=redis://r&chain=etcd://e&chain=etcd://f&name=locks");
  const auto other = parse("failover:?chain=redis://r:1&chain=etcd://e:2&name=others");
  ASSERT_TRUE(one && tunnel && longer && other);
  EXPECT_EQ(one->identity, tunnel->identity);
  EXPECT_NE(one->identity, longer->identity);
  EXPECT_NE(one->identity, other->identity);
}

TEST(FailoverUrlTest, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"failover:?chain=redis://r", "two to four times"},
      {"failover:?chain=redis://r&chain=redis://r", "stands twice"},
      {"failover:?chain=redis://r&chain=memcached://m", "memcached store"},
      {"failover:?chain=redlock://a,b,c&chain=etcd://m", "redlock store"},
      {"failover:?chain=hybrid:&chain=etcd://m", "hybrid store"},
      {"failover:?chain=redis+cluster://r&chain=etcd://m", "redis+cluster store"},
      {"failover:?chain=redis://r&chain=etcd://e%3Frecipe%3Detcd", "recipe="},
      {"failover:?chain=redis://r%3Fns%3Dx&chain=etcd://e", "outer URL"},
      {"failover://host?chain=redis://r&chain=etcd://e", "without a host"},
      {"failover:?chain=redis://r&chain=etcd://e&authority=1ms", "authority"},
      {"failover:?chain=redis://r&chain=etcd://e&chains=1", "chains"},
  };
  for (const auto& [text, part] : cases) {
    const auto url = parse(text);
    ASSERT_FALSE(url) << text;
    EXPECT_EQ(url.error().code(), Errc::kInvalidArgument);
    EXPECT_NE(url.error().message().find(part), std::string::npos) << url.error().message();
  }
}

}  // namespace
}  // namespace holdfast::stores::failover
