#include "src/port/url_parts.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace holdfast::port {
namespace {

const Endpoint kHere{"127.0.0.1", 2379};

StoreUrl url_of(const std::string& text) {
  auto url = StoreUrl::parse(text);
  EXPECT_TRUE(url) << text;
  return url ? *url : StoreUrl{};
}

TEST(UrlPartsTest, AListOfServersFillsInWhatIsNotSaid) {
  const auto servers = parse_endpoints(url_of("etcd://a,b:7000,[::1]:8,:9"), kHere, "etcd");
  ASSERT_TRUE(servers);
  EXPECT_EQ(*servers,
            (std::vector<Endpoint>{{"a", 2379}, {"b", 7000}, {"::1", 8}, {"127.0.0.1", 9}}));
  EXPECT_EQ(servers->at(2).text(), "[::1]:8");
  EXPECT_EQ(parse_endpoints(url_of("etcd://"), kHere, "etcd")->at(0), kHere);
}

TEST(UrlPartsTest, AListThatCannotBeMeantIsRefused) {
  std::string many = "h0";
  for (int i = 1; i < 33; ++i) many += ",h" + std::to_string(i);
  for (const std::string& text :
       {std::string("a,a"), std::string("a:0"), std::string("a:b:c"), std::string("a b"),
        std::string("127.0.0.1,"), std::string(",a"), std::string("a,,b"), many}) {
    const auto servers = parse_endpoints(url_of("etcd://" + text), kHere, "etcd");
    ASSERT_FALSE(servers) << text;
    EXPECT_EQ(servers.error().code(), Errc::kInvalidArgument);
    EXPECT_TRUE(servers.error().message().starts_with("etcd URL: ")) << servers.error().message();
  }
}

TEST(UrlPartsTest, AServerWithoutItsSlashesIsNotTakenForAPath) {
  for (const char* text : {"etcd:127.0.0.1:2379", "etcd:/127.0.0.1:2379", "etcd:host"}) {
    const auto servers = parse_endpoints(url_of(text), kHere, "etcd");
    ASSERT_FALSE(servers) << text;
    EXPECT_EQ(servers.error().message(),
              "etcd URL: write two slashes before the server: etcd://host:port");
  }
}

TEST(UrlPartsTest, ALoginIsTakenOffTheAuthority) {
  ::unsetenv("HOLDFAST_TEST_PASSWORD");
  StoreUrl url = url_of("etcd://al%40ice:s%3Acret@a,b/x?colour=blue");
  const auto login = take_login(url, "etcd", "HOLDFAST_TEST_PASSWORD");
  ASSERT_TRUE(login);
  EXPECT_EQ(login->user, "al@ice");
  EXPECT_EQ(*login->password, "s:cret");
  EXPECT_EQ(url.authority, "a,b");
  EXPECT_EQ(url.options.size(), 1U);
}

TEST(UrlPartsTest, APasswordStandsOnce) {
  StoreUrl url = url_of("etcd://u:p@h?password=q");
  EXPECT_FALSE(take_login(url, "etcd", "HOLDFAST_TEST_PASSWORD"));
}

TEST(UrlPartsTest, OptionsOfTlsNeedTheSchemeThatHasIt) {
  StoreUrl url = url_of("etcd://h?tls_cert=/both.pem");
  StoreUrl plain = url;
  EXPECT_EQ(take_tls(url, true, "etcd", "etcds://")->key, "/both.pem");
  const auto refused = take_tls(plain, false, "etcd", "etcds://");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), "etcd URL: tls_cert needs etcds://");
}

}  // namespace
}  // namespace holdfast::port
