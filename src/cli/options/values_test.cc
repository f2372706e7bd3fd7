#include "src/cli/options/values.h"

#include <gtest/gtest.h>

namespace holdfast::cli {
namespace {

TEST(ValuesTest, APeriodIsLongerThanZero) {
  EXPECT_EQ(*read_period("1ms"), Duration(1));
  EXPECT_FALSE(read_period("0"));
  EXPECT_FALSE(read_period("0h"));
  EXPECT_EQ(*read_duration("0"), Duration::zero());
}

TEST(ValuesTest, NumbersKeepTheirBounds) {
  EXPECT_EQ(*read_number("7", 7, 7), 7);
  for (const char* text : {"", "6", "8", "7 ", " 7", "+7", "0x7", "7.0", "99999999999999999999"}) {
    EXPECT_FALSE(read_number(text, 7, 7)) << text;
  }
  EXPECT_FALSE(read_exit_code("0"));
  EXPECT_FALSE(read_exit_code("256"));
  EXPECT_EQ(*read_exit_timeout("0"), 0);
  EXPECT_FALSE(read_exit_timeout("256"));
}

TEST(ValuesTest, WordsAreWrittenExactly) {
  EXPECT_EQ(*read_on_lost("kill"), OnLost::kKill);
  EXPECT_EQ(*read_leftover("wait"), Leftover::kWait);
  EXPECT_FALSE(read_on_lost("KILL"));
  EXPECT_EQ(read_leftover("x").error().message(), "'x' is not one of end, wait, leave");
}

TEST(ValuesTest, PermitsAreSomeOfAll) {
  EXPECT_EQ(*read_permits("2/3"), Mode::permits(2, 3));
  for (const char* text : {"", "/", "1", "1/", "/1", "0/1", "2/1", "-1/2", "1/4294967296"}) {
    EXPECT_FALSE(read_permits(text)) << text;
  }
}

}  // namespace
}  // namespace holdfast::cli
