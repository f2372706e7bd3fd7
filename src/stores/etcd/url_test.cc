#include "src/stores/etcd/url.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace holdfast::stores::etcd {
namespace {

using namespace std::chrono_literals;

Result<EtcdAddress> parse(const std::string& text) {
  auto url = port::StoreUrl::parse(text);
  EXPECT_TRUE(url) << text;
  return parse_etcd_url(*url);
}

TEST(EtcdUrlTest, NamesServersAndPrefix) {
  ::unsetenv("HOLDFAST_ETCD_PASSWORD");
  EXPECT_EQ(parse("etcd://")->display(), "etcd://127.0.0.1:2379");
  const auto address = parse("etcds://h1,h2:7000,[::1]/a/b/?connect_timeout=250ms&recipe=etcd");
  ASSERT_TRUE(address);
  EXPECT_EQ(address->display(), "etcds://h1:2379,h2:7000,[::1]:2379/a/b");
  EXPECT_EQ(address->connect_timeout, 250ms);
  EXPECT_TRUE(address->tls);
  EXPECT_TRUE(address->foreign_recipe);
  EXPECT_EQ(address->session_ttl, 15s);
  EXPECT_EQ(parse("etcd://?session=2500ms")->session_ttl, 3s);
}

TEST(EtcdUrlTest, KeepsSecretsOutOfWhatItShows) {
  const auto address = parse("etcd://hunter2:hunter3@h/x");
  ASSERT_TRUE(address);
  EXPECT_EQ(address->login.user, "hunter2");
  EXPECT_EQ(*address->login.password, "hunter3");
  EXPECT_EQ(address->display(), "etcd://h:2379/x");
  const auto refused = parse("etcd://hunter2:hunter2@h:0/x");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message().find("hunter2"), std::string::npos);
}

TEST(EtcdUrlTest, RefusesWhatCannotBeMeant) {
  ::unsetenv("HOLDFAST_ETCD_PASSWORD");
  for (const char* text :
       {"etcd://h:0", "etcd://a,a", "etcd://h?recipe=curator", "etcd://h?tls_ca=/x", "etcd://u@h",
        "etcd://:p@h", "etcd://h?session=999ms", "etcd://h?connect_timeout=0", "etcd://a b"}) {
    const auto address = parse(text);
    ASSERT_FALSE(address) << text;
    EXPECT_EQ(address.error().code(), Errc::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace holdfast::stores::etcd
