#include "src/server/journal/gathering.h"

#include <gtest/gtest.h>

namespace holdfast::server {
namespace {

using std::chrono::milliseconds;

base::BootInstant at(int ms) { return base::BootInstant(milliseconds(ms)); }

TEST(GatheringTest, ABatchStaysForTheCallersWhoseAnswersHaveLeft) {
  Gathering gathering;
  gathering.committed(at(100), at(104), /*answered=*/100, /*waiting=*/60);
  EXPECT_TRUE(gathering.goes_on(at(104), 60));
  EXPECT_TRUE(gathering.goes_on(at(105), 149));
  EXPECT_FALSE(gathering.goes_on(at(105), 150)) << "nearly all are there";
}

TEST(GatheringTest, ABatchStaysNoLongerThanTheLastCommitTook) {
  Gathering gathering;
  gathering.committed(at(100), at(102), 100, 60);
  EXPECT_TRUE(gathering.goes_on(at(103), 60));
  EXPECT_FALSE(gathering.goes_on(at(104), 60));
  EXPECT_EQ(gathering.until(), at(104));
}

TEST(GatheringTest, ASlowCommitMakesNobodyWaitLong) {
  Gathering gathering;
  gathering.committed(at(100), at(900), 100, 60);
  EXPECT_FALSE(gathering.goes_on(at(900) + Gathering::kLongest, 60));
}

TEST(GatheringTest, FewCallersWaitForNobody) {
  Gathering gathering;
  EXPECT_FALSE(gathering.goes_on(at(1), 0)) << "before the first commit";
  gathering.committed(at(100), at(104), 10, 5);
  EXPECT_FALSE(gathering.goes_on(at(104), 5));
}

}  // namespace
}  // namespace holdfast::server
