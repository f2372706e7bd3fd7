#include "src/cli/options/config.h"

#include <gtest/gtest.h>

namespace holdfast::cli {
namespace {

TEST(ConfigTest, SecretsInUrlsAreFound) {
  for (const char* url :
       {"redis://:pw@host", "redis://me:pw@host/0", "redis://host?password=x",
        "etcd://h?ttl=3s&token=x", "redis://me:p#pw@host", "redis://:p/pw@host",
        "redis://me:1/pw@host", "redis://me:1?pw@host", "redis%3A//me:pw@host",
        "redis://host?PassWord=x", "failover:?chain=redis%3A%2F%2Fme%3Apw%40host",
        "failover:?chain=failover%3A%3Fchain%3Dredis%253A%252F%252Fme%253Apw%2540h"}) {
    EXPECT_TRUE(holds_secret(url)) << url;
    EXPECT_EQ(without_secret(url).find("pw"), std::string::npos) << url;
    EXPECT_EQ(without_secret(url).find('x'), std::string::npos) << url;
  }
}

TEST(ConfigTest, AConsulTokenIsASecretWhereOthersHaveAUser) {
  EXPECT_FALSE(holds_secret("etcd://me@host/a"));
  for (const char* url : {"consul://t0ken@host:1/a?ns=b", "CONSUL://t0ken@host:1/a",
                          "failover:?chain=consul%3A%2F%2Ft0ken%40host"}) {
    EXPECT_TRUE(holds_secret(url)) << url;
    EXPECT_EQ(without_secret(url).find("t0ken"), std::string::npos) << url;
  }
  EXPECT_EQ(without_secret("consuls://t0ken@host:1/a?ns=b"), "consuls://host:1/a");
  EXPECT_EQ(secrets_of("consul://t%30ken@host"), (std::vector<std::string>{"t%30ken", "t0ken"}));
}

TEST(ConfigTest, UrlsWithoutSecretsStayAsTheyAre) {
  for (const char* url : {"sqlite:///var/lib/a@b:c/locks.db", "memory:x", "redis://me@host:1/0",
                          "redis://host?password_file=/etc/pw&ttl=30s", "redis://host:1/0?ns=a@b",
                          "redis://[::1]:1", "redis+unix:///run/redis.sock?db=3&user=me",
                          "REDIS://Host:6379/12?tls_name=a.b&connect_timeout=1s", "locks.db",
                          "redis://h_1:1,h-2:2,[fe80::1%25eth0]:3", "sqlite:/a@b;c=d", "memory:"}) {
    EXPECT_FALSE(holds_secret(url)) << url;
    EXPECT_EQ(without_secret(url), url);
  }
}

TEST(ConfigTest, WhatIsShownOfAUrlWithASecretTellsItsHost) {
  EXPECT_EQ(without_secret("redis://me:s3cret@host:1/0?ns=a"), "redis://host:1/0");
  EXPECT_EQ(without_secret("redis://me:s3cret@host?ns=a&db=3"), "redis://host?db=3");
  EXPECT_EQ(without_secret("redis://:p/w@host"), "redis://(not shown)");
}

TEST(ConfigTest, OfAMistypedUrlNothingIsShownInWhichAPasswordMayStand) {
  for (const auto& [url, shown] : {
           std::pair{"redis:/u:PW@h", "(not shown)"},
           {"redis:u:PW@h", "(not shown)"},
           {"redis//u:PW@h", "(not shown)"},
           {"redis//:PW@h:6379", "(not shown)"},
           {"//u:PW@h", "(not shown)"},
           {"u:PW@h:6379", "(not shown)"},
           {"u:PW@x://h", "(not shown)"},
           {"password=PW", "(not shown)"},
           {"redis:///u:PW@h", "redis://(not shown)"},
           {"redis://u:PW:h", "redis://(not shown)"},
           {"redis://h:PW", "redis://(not shown)"},
           {"redis://h/PW", "redis://(not shown)"},
           {"redis://h;password=PW", "redis://(not shown)"},
           {"rediss://h&password=PW", "rediss://(not shown)"},
           {"redis://h/0&password=PW", "redis://(not shown)"},
           {"redis+unix:///s.sock&password=PW", "redis+unix://(not shown)"},
           {"redis://h?pasword=PW", "redis://h"},
           {"redis://h?PW", "redis://h"},
           {"redis://h?db=0;password=PW", "redis://h"},
           {"redis://me@h/0?x=PW&ttl=30s", "redis://h/0"},
           {"sqlite:///tmp/x?PW=1", "sqlite:///tmp/x"},
       }) {
    EXPECT_TRUE(holds_secret(url)) << url;
    EXPECT_EQ(without_secret(url), shown) << url;
  }
}

TEST(ConfigTest, UrlOptionsAreDecoded) {
  EXPECT_EQ(url_option("sqlite:///x?ns=a%2Fb&ttl=3s", "ns"), "a/b");
  EXPECT_EQ(url_option("sqlite:///x?ns=a&ttl=3s", "ttl"), "3s");
  EXPECT_EQ(url_option("sqlite:///x", "ttl"), std::nullopt);
  EXPECT_EQ(url_decoded("%41%zz%4"), "A%zz%4");
}

TEST(ConfigTest, AUrlThatMakesNoSenseIsNotShown) {
  // The "://" behind the '?' belongs to no login; nesting without end ends.
  EXPECT_EQ(without_secret("a?b=://me:s3cret@host"), "a");
  std::string deep = "a";
  for (int i = 0; i < 30'000; ++i) deep += "?b=";
  EXPECT_TRUE(holds_secret(deep + "%25252525"));
  EXPECT_EQ(url_decoded("%+5% 5%-1%0x"), "%+5% 5%-1%0x");
}

}  // namespace
}  // namespace holdfast::cli
