#include "src/stores/holdfast/url.h"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

namespace holdfast::stores::holdfast {
namespace {

Result<redis::RedisAddress> parsed(const std::string& text) {
  auto url = port::StoreUrl::parse(text);
  if (!url) return url.error();
  return parse_url(*url);
}

TEST(HoldfastUrlTest, HostAndPortHaveDefaults) {
  EXPECT_EQ(parsed("holdfast://")->display(), "holdfast://127.0.0.1:7420");
  EXPECT_EQ(parsed("holdfast://locks.example")->display(), "holdfast://locks.example:7420");
  EXPECT_EQ(parsed("holdfast://[::1]:9")->display(), "holdfast://[::1]:9");
  EXPECT_EQ(parsed("holdfast://h:1/?connect_timeout=5s")->connect_timeout, std::chrono::seconds(5));
}

TEST(HoldfastUrlTest, SeveralServersStandForOneService) {
  const auto address = parsed("holdfast://a,b:1,[::1]");
  ASSERT_TRUE(address);
  EXPECT_EQ(address->display(), "holdfast://a:7420,b:1,[::1]:7420");
  EXPECT_EQ(address->nodes.size(), 3U);
}

TEST(HoldfastUrlTest, ALogInIsForAllServersAndNeverShown) {
  const auto address = parsed("holdfasts://app:p%40@a,b?tls_ca=/ca&tls_name=locks");
  ASSERT_TRUE(address);
  EXPECT_EQ(address->user, "app");
  EXPECT_EQ(address->password, "p@");
  EXPECT_TRUE(address->tls);
  EXPECT_EQ(address->tls_ca, "/ca");
  EXPECT_EQ(address->tls_name, "locks");
  EXPECT_EQ(address->display(), "holdfasts://a:7420,b:7420");
}

TEST(HoldfastUrlTest, TheVariablesPasswordIsForAUserOnly) {
  ASSERT_EQ(::setenv("HOLDFAST_SERVICE_PASSWORD", "secret", 1), 0);
  EXPECT_EQ(parsed("holdfast://app@h")->password, "secret");
  EXPECT_EQ(parsed("holdfast://h?user=app")->password, "secret");
  EXPECT_FALSE(parsed("holdfast://h")->password);
  ::unsetenv("HOLDFAST_SERVICE_PASSWORD");
  EXPECT_FALSE(parsed("holdfast://app@h")->password);
}

TEST(HoldfastUrlTest, WhatCannotBeIsRefused) {
  for (const std::string url :
       {"holdfast://:u:p@h", "holdfast://h?password=u:p", "holdfast://u:p@h?tls_ca=/x",
        "holdfast://h/3", "holdfast:h", "holdfast://h:99999", "holdfast://a,a", "holdfast://a,",
        "holdfast://h:"}) {
    const auto address = parsed(url);
    ASSERT_FALSE(address) << url;
    EXPECT_EQ(address.error().code(), Errc::kInvalidArgument) << url;
    EXPECT_EQ(address.error().message().find("u:p"), std::string::npos);
  }
}

}  // namespace
}  // namespace holdfast::stores::holdfast
