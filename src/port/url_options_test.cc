#include "src/port/url_options.h"

#include <gtest/gtest.h>

namespace holdfast::port {
namespace {

using namespace std::chrono_literals;

constexpr UrlOption kDeclared[] = {
    time_option("wait", "3s", "how long", 200ms, 10min),
    time_option("pause", "1s", "how long between"),
    number_option("db", "", "which one", 16),
    word_option("recipe", "curator|kazoo", "whose locks"),
    text_option("place", "where"),
};

Result<UrlOptions> options(const std::string& query) {
  auto url = StoreUrl::parse("x://h?" + query);
  EXPECT_TRUE(url);
  return UrlOptions::take(*url, "x", kDeclared);
}

std::string error_of(const std::string& query) {
  const auto taken = options(query);
  EXPECT_FALSE(taken) << query;
  if (!taken) {
    EXPECT_EQ(taken.error().code(), Errc::kInvalidArgument);
  }
  return taken ? "" : taken.error().message();
}

TEST(UrlOptionsTest, GivenValuesAreRead) {
  const auto taken = options("wait=10m&db=16&recipe=kazoo&place=a%26b");
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->time("wait"), 10min);
  EXPECT_EQ(taken->number("db"), 16U);
  EXPECT_EQ(taken->text("recipe"), "kazoo");
  EXPECT_EQ(taken->text("place"), "a&b");
  EXPECT_TRUE(taken->has("db"));
}

TEST(UrlOptionsTest, WhatIsNotGivenIsTheFallback) {
  const auto taken = options("");
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->time("wait"), 3s);
  EXPECT_EQ(taken->number("db"), 0U);
  EXPECT_EQ(taken->text("place"), "");
  EXPECT_FALSE(taken->has("wait"));
}

TEST(UrlOptionsTest, ErrorsSayWhatIsExpected) {
  EXPECT_EQ(error_of("wait=199ms"), "x URL: wait is a time from 200ms to 10m");
  EXPECT_EQ(error_of("wait=601s"), "x URL: wait is a time from 200ms to 10m");
  EXPECT_EQ(error_of("pause=0"), "x URL: pause is a time of at least 1ms");
  EXPECT_NE(error_of("pause=soon").find("x URL: pause is a time of at least 1ms ("),
            std::string::npos);
  for (const char* const bad : {"db=17", "db=-1", "db=", "db=1x", "db=+1"}) {
    EXPECT_EQ(error_of(bad), "x URL: db is a number from 0 to 16") << bad;
  }
  for (const char* const bad : {"recipe=zk", "recipe=", "recipe=curator|kazoo"}) {
    EXPECT_EQ(error_of(bad), "x URL: recipe is curator or kazoo") << bad;
  }
}

TEST(UrlOptionsTest, OnlyDeclaredOptionsAreTaken) {
  auto url = StoreUrl::parse("x://h?db=1&colour=blue");
  ASSERT_TRUE(url);
  ASSERT_TRUE(UrlOptions::take(*url, "x", kDeclared));
  const auto rejected = reject_unknown_options(*url, "x");
  ASSERT_FALSE(rejected);
  EXPECT_EQ(rejected.error().message(), "x URL: there is no option 'colour'");
}

}  // namespace
}  // namespace holdfast::port
