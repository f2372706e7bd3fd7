#include "src/stores/consul/url.h"

#include <stdlib.h>

#include <gtest/gtest.h>

namespace holdfast::stores::consul {
namespace {

Result<ConsulAddress> parsed(const std::string& text) {
  auto url = port::StoreUrl::parse(text);
  if (!url) return url.error();
  return parse_consul_url(*url);
}

TEST(ConsulUrlTest, AnEmptyOneIsTheAgentOfThisHost) {
  const auto address = parsed("consul://");
  ASSERT_TRUE(address);
  EXPECT_EQ(address->display(), "consul://127.0.0.1:8500/holdfast");
  EXPECT_FALSE(address->tls);
  EXPECT_EQ(parsed("consuls://")->hosts[0].port, 8501);
}

TEST(ConsulUrlTest, SeveralAgentsAndAPrefixAreTaken) {
  const auto address = parsed("consul://one,two:9000,[::1]/team/locks/?dc=east");
  ASSERT_TRUE(address) << address.error().message();
  EXPECT_EQ(address->display(), "consul://one:8500,two:9000,[::1]:8500/team/locks");
  EXPECT_EQ(address->datacenter, "east");
}

TEST(ConsulUrlTest, TheRecipeSharesAPathAndHasItsDelay) {
  const auto address = parsed("consul://host/team/locks?recipe=consul");
  ASSERT_TRUE(address) << address.error().message();
  EXPECT_EQ(address->shared_path, "team/locks/");
  EXPECT_EQ(address->prefix, "holdfast");
  EXPECT_EQ(address->lock_delay, std::chrono::seconds(15));
  EXPECT_EQ(parsed("consul://host?recipe=consul&lock_delay=1s")->lock_delay,
            std::chrono::seconds(1));
  EXPECT_EQ(parsed("consul://host?recipe=consul")->shared_path, "");
  EXPECT_EQ(parsed("consul://host")->lock_delay, std::chrono::seconds(0));
}

TEST(ConsulUrlTest, ATokenComesFromOnePlace) {
  EXPECT_EQ(parsed("consul://s3cret@host")->token, "s3cret");
  EXPECT_EQ(parsed("consul://host?token=s3cret")->token, "s3cret");
  ::setenv("HOLDFAST_TEST_TOKEN", "of-the-environment", 1);
  EXPECT_EQ(parsed("consul://host?token_env=HOLDFAST_TEST_TOKEN")->token, "of-the-environment");
  for (const char* bad :
       {"consul://a@host?token=b", "consul://host?token=a&token_env=HOME", "consul://u:p@host",
        "consul://host?password=x", "consul://host?user=x", "consul://host?token=a%0d%0ab"}) {
    const auto address = parsed(bad);
    ASSERT_FALSE(address) << bad;
    EXPECT_EQ(address.error().code(), Errc::kInvalidArgument) << bad;
  }
}

TEST(ConsulUrlTest, NoMessageHoldsTheToken) {
  EXPECT_EQ(parsed("consul://s3cret@host")->display().find("s3cret"), std::string::npos);
  for (const char* bad : {"consul://s3cret@host:0", "consul://s3cret@host?token=b",
                          "consul://host:x?token=s3cret", "consul://host?token=s3cret%0a"}) {
    const auto address = parsed(bad);
    ASSERT_FALSE(address) << bad;
    EXPECT_EQ(address.error().message().find("s3cret"), std::string::npos) << bad;
  }
}

TEST(ConsulUrlTest, TheVariablesOfConsulCountLast) {
  ::setenv("CONSUL_HTTP_TOKEN", "consuls-own", 1);
  EXPECT_EQ(parsed("consul://host")->token, "consuls-own");
  ::setenv("HOLDFAST_CONSUL_TOKEN", "ours", 1);
  EXPECT_EQ(parsed("consul://host")->token, "ours");
  EXPECT_EQ(parsed("consul://host?token=named")->token, "named");
  ::unsetenv("HOLDFAST_CONSUL_TOKEN");
  ::unsetenv("CONSUL_HTTP_TOKEN");
}

TEST(ConsulUrlTest, WhatMakesNoSenseIsRefused) {
  for (const char* bad :
       {"consul://host/a//b", "consul://host/a/../b", "consul://host/a%20b", "consul://host/a%22b",
        "consul://host/.", "consul://host/a/./b", "consul://host/a/%2e%2e", "consul://host/..",
        "consul://host/a/.?recipe=consul", "consul://host?recipe=consul&lock_delay=61s",
        "consul://host?recipe=consul&lock_delay=x", "consul://host?lock_delay=1s",
        "consul://host?recipe=zk", "consul://host?session=1ms", "consul://host?tls_ca=x",
        "consul://host?dc=a%26b", "consul://host?connect_timeout=0s", "consul://host,host"}) {
    EXPECT_FALSE(parsed(bad)) << bad;
  }
}

}  // namespace
}  // namespace holdfast::stores::consul
