#include "holdfast/detail/utc.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace holdfast::detail {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

TEST(UtcTest, TimesHaveMilliseconds) {
  EXPECT_EQ(utc_text(milliseconds(1'795'239'648'983)), "2026-11-21T05:40:48.983Z");
  EXPECT_EQ(utc_text(system_clock::time_point(milliseconds(951'782'400'000))),
            "2000-02-29T00:00:00.000Z");
}

TEST(UtcTest, ATimeBefore1970IsRoundedDown) {
  EXPECT_EQ(utc_text(milliseconds(-1)), "1969-12-31T23:59:59.999Z");
  EXPECT_EQ(utc_text(system_clock::time_point(std::chrono::microseconds(-1))),
            "1969-12-31T23:59:59.999Z");
}

TEST(UtcTest, ATimeBeyondTimePointsIsTold) {
  EXPECT_EQ(utc_text(milliseconds((std::int64_t{1} << 48) - 1)), "10889-08-02T05:31:50.655Z");
}

}  // namespace
}  // namespace holdfast::detail
