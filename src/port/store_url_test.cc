#include "src/port/store_url.h"

#include <gtest/gtest.h>

namespace holdfast::port {
namespace {

using std::chrono::milliseconds;

TEST(StoreUrlTest, PartsAreSplitAndDecoded) {
  const auto url = StoreUrl::parse("SQLite:///var/lib/a%20b.db?ttl=30s&ns=a%26b");
  ASSERT_TRUE(url.has_value());
  EXPECT_EQ(url->scheme, "sqlite");
  EXPECT_EQ(url->authority, "");
  EXPECT_EQ(url->path, "/var/lib/a b.db");
  ASSERT_EQ(url->options.size(), 2U);
  EXPECT_EQ(url->options[1], std::make_pair(std::string("ns"), std::string("a&b")));
}

TEST(StoreUrlTest, AuthorityAndPathAreApart) {
  const auto url = StoreUrl::parse("redis://user:secret@h1,h2:6380/3");
  ASSERT_TRUE(url.has_value());
  EXPECT_EQ(url->authority, "user:secret@h1,h2:6380");
  EXPECT_EQ(url->path, "/3");
}

TEST(StoreUrlTest, MemoryMayHaveAName) {
  EXPECT_EQ(StoreUrl::parse("memory:").value().path, "");
  EXPECT_EQ(StoreUrl::parse("memory:tests").value().path, "tests");
}

TEST(StoreUrlTest, RedactedHasNoCredentials) {
  const auto url = StoreUrl::parse("redis://user:hunter2@h/0?password=hunter2&ttl=3s");
  ASSERT_TRUE(url.has_value());
  EXPECT_EQ(url->redacted().find("hunter2"), std::string::npos);
  EXPECT_NE(url->redacted().find("ttl=3s"), std::string::npos);
}

TEST(StoreUrlTest, MalformedOnesAreRefusedWithTheirCode) {
  for (const char* text : {"", "sqlite", "://x", "1x:", "sqlite:///a%2", "sqlite:///a%zz",
                           "sqlite:///a%00b", "memory:?ttl", "memory:?=1", "memory:?a=1&a=2",
                           "sqlite:///a.db#b", "sqlite:///a.db?ns=a#b", "memory:a#b"}) {
    const auto url = StoreUrl::parse(text);
    ASSERT_FALSE(url.has_value()) << text;
    EXPECT_EQ(url.error().code(), Errc::kInvalidArgument) << text;
  }
  EXPECT_FALSE(StoreUrl::parse("memory:" + std::string(5000, 'x')).has_value());
}

TEST(StoreUrlTest, AHashThatBelongsToAPathIsEncoded) {
  const auto url = StoreUrl::parse("sqlite:///a%23b%3Fc%25d.db");
  ASSERT_TRUE(url.has_value());
  EXPECT_EQ(url->path, "/a#b?c%d.db");
  EXPECT_EQ(url->redacted(), "sqlite:///a%23b%3Fc%25d.db");
  EXPECT_NE(StoreUrl::parse("sqlite:///a#b").error().message().find("%23"), std::string::npos);
}

TEST(StoreUrlTest, TakeRemovesTheOption) {
  auto url = StoreUrl::parse("memory:?a=1&b=2").value();
  EXPECT_EQ(url.take("a"), "1");
  EXPECT_EQ(url.take("a"), std::nullopt);
  EXPECT_EQ(url.options.size(), 1U);
}

TEST(DurationTest, UnitsAddUpAndRoundUp) {
  EXPECT_EQ(parse_duration("250ms").value(), milliseconds(250));
  EXPECT_EQ(parse_duration("1.5s").value(), milliseconds(1500));
  EXPECT_EQ(parse_duration("1h30m").value(), std::chrono::minutes(90));
  EXPECT_EQ(parse_duration("0.2ms").value(), milliseconds(1));
  EXPECT_EQ(parse_duration("0s").value(), milliseconds(0));
  EXPECT_EQ(parse_duration("500").value(), milliseconds(500));
}

TEST(DurationTest, WhatIsNoneIsRefused) {
  for (const char* text : {"", "s", "-1s", "1x", "1 s", "1s ", "1..2s", ".s", "nan", "1e9s",
                           "99999999999999999999s", "367d"}) {
    EXPECT_FALSE(parse_duration(text).has_value()) << text;
  }
}

TEST(StoreUrlTest, ANulIsRefusedHoweverItIsWritten) {
  EXPECT_FALSE(StoreUrl::parse("sqlite:///a%00b"));
  EXPECT_FALSE(StoreUrl::parse(std::string_view("sqlite:///a\0b", 13)));
}

TEST(StoreUrlTest, WhatIsShownOfOptionsIsReadTheSame) {
  const auto url = StoreUrl::parse("memory:x?a%3D=b%26c%3Dd%25e%23f");
  ASSERT_TRUE(url);
  const auto again = StoreUrl::parse(url->redacted());
  ASSERT_TRUE(again) << url->redacted();
  EXPECT_EQ(again->options, url->options);
}

}  // namespace
}  // namespace holdfast::port
