#include "src/rows/ended_ids.h"

#include <gtest/gtest.h>

namespace holdfast::rows {
namespace {

machine::AcquisitionId number(std::uint64_t n) { return {n % 3, n}; }

TEST(EndedIdsTest, KeepsTheLastAndNoMore) {
  constexpr std::uint64_t kKeep = 100;
  EndedIds ids(kKeep);
  for (std::uint64_t n = 0; n < 5 * kKeep + 7; ++n) {
    EXPECT_FALSE(ids.contains(number(n)));
    ids.add(number(n));
    for (std::uint64_t old = 0; old <= n; ++old) {
      ASSERT_EQ(ids.contains(number(old)), old + kKeep > n) << old << " after " << n;
    }
  }
}

TEST(EndedIdsTest, AnIdThatIsAddedAgainTakesNoRoom) {
  EndedIds ids(2);
  ids.add(number(1));
  for (int i = 0; i < 5; ++i) ids.add(number(2));
  EXPECT_TRUE(ids.contains(number(1)));
  EXPECT_TRUE(ids.contains(number(2)));
}

}  // namespace
}  // namespace holdfast::rows
