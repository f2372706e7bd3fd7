#include "src/stores/zookeeper/url.h"

#include <gtest/gtest.h>

namespace holdfast::stores::zookeeper {
namespace {

using std::chrono_literals::operator""s;

Result<ZookeeperAddress> parse(const std::string& text) {
  auto url = port::StoreUrl::parse(text);
  if (!url) return url.error();
  return parse_zookeeper_url(*url);
}

TEST(ZookeeperUrlTest, NamesServersChrootAndSession) {
  const auto address = parse("zookeeper://h1,h2:2182/app/locks?session=20s");
  ASSERT_TRUE(address) << address.error().message();
  EXPECT_EQ(address->servers, "h1:2181,h2:2182");
  EXPECT_EQ(address->base, "/app/locks/hf1");
  EXPECT_EQ(address->session, 20s);
  EXPECT_EQ(parse("zookeeper://h1")->base, "/hf1");
  EXPECT_EQ(parse("zookeeper://u:p%40@h1/")->auth, "u:p@");
}

TEST(ZookeeperUrlTest, WhatIsWrongIsSaidWithoutThePassword) {
  for (const char* const text :
       {"zookeeper://u@h1", "zookeeper://h1/a//b", "zookeeper://h1/a/", "zookeeper://h1/../x",
        "zookeeper://h1/zookeeper", "zookeeper://h1?session=1ms", "zookeeper://u:secret@h1:0",
        "zookeeper://h1?tls_ca=x", "zookeeper://h1/a&password=secret"}) {
    const auto address = parse(text);
    ASSERT_FALSE(address) << text;
    EXPECT_EQ(address.error().message().find("secret"), std::string::npos);
  }
}

}  // namespace
}  // namespace holdfast::stores::zookeeper
