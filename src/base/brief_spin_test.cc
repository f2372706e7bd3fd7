#include "src/base/brief_spin.h"

#include <set>

#include <gtest/gtest.h>

namespace holdfast::base {
namespace {

TEST(BriefSpin, LooksUntilItIsReady) {
  BriefSpin spin;
  int looks = 0;
  // On a busy machine the time may be over before the third look.
  while (!spin.until([&] { return ++looks == 3; })) ASSERT_LT(looks, 3);
  EXPECT_EQ(looks, 3);
}

// Which of so many waits looked at all, when none of them saw anything.
std::set<int> waits_that_looked(BriefSpin& spin, int waits) {
  std::set<int> looked;
  for (int wait = 0; wait < waits; ++wait) {
    const auto never = [&] {
      looked.insert(wait);
      return false;
    };
    EXPECT_FALSE(spin.until(never));
  }
  return looked;
}

TEST(BriefSpin, LooksMoreAndMoreSeldomWhereAnswersTakeLong) {
  BriefSpin spin;
  EXPECT_EQ(waits_that_looked(spin, 200), (std::set{0, 2, 5, 10, 19, 36, 69, 134, 199}));
}

TEST(BriefSpin, OneAnswerInTimeIsEnoughToLookEachTimeAgain) {
  BriefSpin spin;
  waits_that_looked(spin, 70);
  int waits = 0;
  while (!spin.until([] { return true; })) ASSERT_LT(++waits, 70);
  EXPECT_TRUE(spin.until([] { return true; }));
}

}  // namespace
}  // namespace holdfast::base
