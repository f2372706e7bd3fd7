#include "src/stores/memcached/url.h"

#include <string>

#include <gtest/gtest.h>

namespace holdfast::stores::memcached {
namespace {

using namespace std::chrono_literals;

Result<MemcachedAddress> parse(const std::string& text) {
  auto url = port::StoreUrl::parse(text);
  if (!url) return url.error();
  auto address = parse_memcached_url(*url);
  if (!address) return address;
  if (auto known = port::reject_unknown_options(*url, "memcached"); !known) return known.error();
  return address;
}

TEST(MemcachedUrlTest, SaysWhereTheServerIs) {
  const auto plain = parse("memcached://cache.example");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->display(), "memcached://cache.example:11211");
  EXPECT_EQ(plain->poll, 100ms);
  const auto whole = parse("memcached://[::1]:7?connect_timeout=50ms&poll=20ms");
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->host.text(), "[::1]:7");
  EXPECT_EQ(whole->connect_timeout, 50ms);
  EXPECT_EQ(whole->poll, 20ms);
}

TEST(MemcachedUrlTest, WhatCannotBeIsRefusedWithTheReason) {
  const struct {
    const char* url;
    const char* reason;
  } cases[] = {
      {"memcached://a,b", "name one server"},
      {"memcached://user:secret@a", "SASL"},
      {"memcached:a", "//"},
      {"memcached://a/path", "?ns="},
      {"memcached://a?poll=1ms", "poll"},
      {"memcached://a?poll=5s", "poll"},
      {"memcached://a?tls_ca=x", "tls_ca"},
      {"memcached://a:0", "port"},
  };
  for (const auto& each : cases) {
    const auto address = parse(each.url);
    ASSERT_FALSE(address) << each.url;
    EXPECT_EQ(address.error().code(), Errc::kInvalidArgument);
    EXPECT_NE(address.error().message().find(each.reason), std::string::npos)
        << each.url << ": " << address.error().message();
    EXPECT_EQ(address.error().message().find("secret"), std::string::npos);
  }
}

}  // namespace
}  // namespace holdfast::stores::memcached
