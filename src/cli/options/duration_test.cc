#include "src/cli/options/duration.h"

#include <gtest/gtest.h>

namespace holdfast::cli {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

TEST(DurationTest, ReadsWhatPeopleWrite) {
  const std::pair<const char*, milliseconds> cases[] = {{"30s", 30s},
                                                        {"1.5s", 1'500ms},
                                                        {"250ms", 250ms},
                                                        {"2m", 2min},
                                                        {"1h30m", 90min},
                                                        {"1d", 24h},
                                                        {"1h30m10s5ms", 5'410'005ms},
                                                        {"0", 0ms},
                                                        {"7", 7s},
                                                        {"0.5", 500ms},
                                                        {"1m0.25s", 60'250ms},
                                                        {"36500d", 36'500 * 24h}};
  for (const auto& [text, expected] : cases) {
    const auto parsed = parse_duration(text);
    ASSERT_TRUE(parsed) << text << ": " << parsed.error().message();
    EXPECT_EQ(*parsed, expected) << text;
  }
}

TEST(DurationTest, RoundsUpToMilliseconds) {
  EXPECT_EQ(*parse_duration("0.1ms"), 1ms);
  EXPECT_EQ(*parse_duration("1.0000001s"), 1'001ms);
  EXPECT_EQ(*parse_duration("0.0000009d"), 78ms);
  EXPECT_EQ(*parse_duration("1.00000000000000000000000000001s"), 1'001ms);
  EXPECT_EQ(*parse_duration("1.0001s"), 1'001ms);
}

TEST(DurationTest, RefusesGarbageAndSaysHowToWriteOne) {
  for (const char* text : {"",
                           "x",
                           "-1s",
                           "+1s",
                           "1x",
                           "s",
                           "1s1h",
                           "1s1s",
                           "1.s",
                           ".5s",
                           "1.5.5s",
                           "1.5s3",
                           "5 s",
                           " 5s",
                           "1e3",
                           "0x10",
                           "1.5h30m",
                           "36501d",
                           "99999999999999999999",
                           "9223372036854775807s",
                           "1h 5m"}) {
    const auto parsed = parse_duration(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code(), Errc::kInvalidArgument);
    EXPECT_NE(parsed.error().message().find("1h30m"), std::string::npos) << text;
  }
}

TEST(DurationTest, IsShownShort) {
  EXPECT_EQ(format_duration(-5ms), "0s");
  EXPECT_EQ(format_duration(0ms), "0ms");
  EXPECT_EQ(format_duration(999ms), "999ms");
  EXPECT_EQ(format_duration(1'500ms), "1.5s");
  EXPECT_EQ(format_duration(9'050ms), "9s");
  EXPECT_EQ(format_duration(42s), "42s");
  EXPECT_EQ(format_duration(125s), "2m05s");
  EXPECT_EQ(format_duration(187min), "3h07m");
  EXPECT_EQ(format_duration(122h), "5d02h");
}

}  // namespace
}  // namespace holdfast::cli
