#include "src/stores/redis/transport/turns.h"

#include <limits>

#include <gtest/gtest.h>

namespace holdfast::stores::redis {
namespace {

using std::chrono::microseconds;

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

Turns near(std::size_t crowd) {
  Turns turns;
  turns.on_answer(microseconds(50), 1, crowd);
  return turns;
}

TEST(TurnsTest, AWriteToAServerNearByHasHalfOfTheCrowd) {
  EXPECT_EQ(near(16).room(/*written=*/0, /*waiting=*/8), 8U);
  EXPECT_EQ(near(33).room(0, 33), 17U);
  EXPECT_EQ(near(2).room(0, 1), Turns::kFew);
}

TEST(TurnsTest, AWriteGoesOnUntilItHasAFew) {
  EXPECT_EQ(near(16).room(Turns::kFew - 1, 5), 8U - (Turns::kFew - 1));
  EXPECT_EQ(near(16).room(Turns::kFew, 5), 0U);
}

TEST(TurnsTest, ABurstBeyondTheCrowdGoesAsAWhole) { EXPECT_EQ(near(1).room(0, 40), kNoLimit); }

TEST(TurnsTest, CallersThatAreBusyJustNowStillCount) {
  Turns turns = near(16);
  turns.on_answer(microseconds(50), 1, 3);
  EXPECT_EQ(turns.room(0, 12), 7U);
}

TEST(TurnsTest, WhatWaitsIsHeldOnlyWhileAnAnswerIsDue) {
  EXPECT_FALSE(near(16).hold(/*sent=*/0, /*waiting=*/8));
  EXPECT_FALSE(near(16).hold(Turns::kFew - 1, 8));
  EXPECT_TRUE(near(16).hold(Turns::kFew, 8));
}

TEST(TurnsTest, HalfOfALargeCrowdIsUnderWayInSeveralBatches) {
  const Turns turns = near(256);
  EXPECT_EQ(turns.room(0, 256), 128U);
  EXPECT_FALSE(turns.hold(Turns::kWorthAWrite, Turns::kWorthAWrite));
  EXPECT_FALSE(turns.hold(128 - Turns::kWorthAWrite, Turns::kWorthAWrite));
  EXPECT_TRUE(turns.hold(128 - Turns::kWorthAWrite + 1, 128));
  EXPECT_TRUE(turns.hold(Turns::kWorthAWrite, Turns::kWorthAWrite - 1));
}

TEST(TurnsTest, AServerFarAwayGetsEachRequestAtOnce) {
  Turns turns = near(16);
  turns.on_answer(Turns::kNear + 8 * Turns::kNearEach + microseconds(1), 8, 16);
  EXPECT_FALSE(turns.hold(8, 8));
  EXPECT_EQ(turns.room(8, 8), kNoLimit);
  EXPECT_FALSE(turns.due_soon());
}

TEST(TurnsTest, MoreRequestsMayTakeLonger) {
  Turns turns;
  turns.on_answer(Turns::kNear + 8 * Turns::kNearEach, 8, 16);
  EXPECT_TRUE(turns.due_soon());
}

TEST(TurnsTest, ANewConnectionMayLeadFarAway) {
  Turns turns = near(16);
  turns.on_new_connection();
  EXPECT_FALSE(turns.hold(8, 8));
  EXPECT_EQ(turns.room(0, 8), kNoLimit);
}

TEST(TurnsTest, AnyServerWithALotToDoGetsWholeBatches) {
  const Turns turns;
  EXPECT_TRUE(turns.hold(Turns::kEnoughToDo + 1, Turns::kWorthAWrite - 1));
  EXPECT_FALSE(turns.hold(Turns::kEnoughToDo + 1, Turns::kWorthAWrite));
  EXPECT_FALSE(turns.hold(Turns::kEnoughToDo, 1));
}

TEST(TurnsTest, NobodyStaysAwakeForALoneCaller) {
  EXPECT_FALSE(near(1).due_soon());
  EXPECT_TRUE(near(2).due_soon());
}

}  // namespace
}  // namespace holdfast::stores::redis
