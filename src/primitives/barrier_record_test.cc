#include "src/primitives/barrier_record.h"

#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/primitives/document.h"

namespace holdfast::primitives::barring {
namespace {

const std::string kName = "step";
constexpr auto kBreak = BarrierPolicy::kBreak;
constexpr auto kLeave = BarrierPolicy::kLeave;

Token seat(std::uint64_t n) { return {1, n}; }

Record with(std::uint32_t parties, BarrierPolicy policy, std::uint64_t members) {
  Record record;
  for (std::uint64_t n = 1; n <= members; ++n) {
    EXPECT_TRUE(enter(record, seat(n), parties, policy, kName));
  }
  return record;
}

Step step_of(const Record& record, std::uint64_t n) {
  const Member* member = record.find(seat(n));
  EXPECT_NE(member, nullptr);
  return member == nullptr ? Step::kThere : member->step;
}

Errc code_of(const Result<void>& result) {
  EXPECT_FALSE(result);
  return result ? Errc{} : result.error().code();
}

TEST(BarrierRecordTest, TheLastArrivalOpensItForAll) {
  Record record = with(2, kBreak, 2);
  EXPECT_TRUE(arrive(record, seat(1), kName));
  EXPECT_EQ(step_of(record, 1), Step::kArrived);
  EXPECT_TRUE(arrive(record, seat(2), kName));
  EXPECT_EQ(step_of(record, 1), Step::kPassed);
  EXPECT_EQ(step_of(record, 2), Step::kPassed);
  EXPECT_EQ(record.generation, 1U);
}

TEST(BarrierRecordTest, ArrivingTwiceInAGenerationCountsOnce) {
  Record record = with(2, kBreak, 1);
  EXPECT_TRUE(arrive(record, seat(1), kName));
  EXPECT_TRUE(arrive(record, seat(1), kName));
  EXPECT_EQ(record.waiting(), 1U);
  EXPECT_EQ(record.generation, 0U);
}

TEST(BarrierRecordTest, WhoIsGoneBreaksIt) {
  Record record = with(3, kBreak, 3);
  EXPECT_TRUE(arrive(record, seat(1), kName));
  EXPECT_TRUE(drop_gone(record, {seat(1), seat(2)}));
  EXPECT_TRUE(record.broken);
  EXPECT_EQ(step_of(record, 1), Step::kBroken);
  EXPECT_EQ(code_of(arrive(record, seat(2), kName)), Errc::kBroken);
  EXPECT_EQ(code_of(leave(record, seat(2), kName)), Errc::kBroken);
  EXPECT_EQ(code_of(arrive(record, seat(3), kName)), Errc::kLost);
  reopen(record);
  EXPECT_FALSE(record.broken);
  EXPECT_EQ(step_of(record, 1), Step::kBroken);  // Until it arrives again.
  EXPECT_TRUE(arrive(record, seat(1), kName));
  EXPECT_EQ(record.awaited(), 3U);
}

TEST(BarrierRecordTest, WhoIsGoneMayOpenIt) {
  Record record = with(3, kLeave, 3);
  EXPECT_TRUE(arrive(record, seat(1), kName));
  EXPECT_TRUE(arrive(record, seat(2), kName));
  EXPECT_TRUE(drop_gone(record, {seat(1), seat(2)}));
  EXPECT_EQ(step_of(record, 1), Step::kPassed);
  EXPECT_EQ(record.awaited(), 2U);
  EXPECT_TRUE(enter(record, seat(4), 3, kLeave, kName));
  EXPECT_EQ(record.awaited(), 3U);
}

TEST(BarrierRecordTest, NobodyIsGoneWhoHasItsSeat) {
  Record record = with(2, kBreak, 2);
  EXPECT_FALSE(drop_gone(record, {seat(2), seat(1), seat(9)}));
  EXPECT_FALSE(record.broken);
}

TEST(BarrierRecordTest, AnArrivalOfWhoLeftIsKeptForThoseWhoComeLater) {
  Record record = with(2, kBreak, 1);
  EXPECT_TRUE(leave(record, seat(1), kName));
  EXPECT_EQ(record.arrived_and_left, 1U);
  EXPECT_TRUE(enter(record, seat(2), 2, kBreak, kName));
  EXPECT_TRUE(arrive(record, seat(2), kName));
  EXPECT_EQ(step_of(record, 2), Step::kPassed);
  EXPECT_EQ(record.awaited(), 1U);
}

TEST(BarrierRecordTest, BeginsAnewWhenAllHaveLeft) {
  Record record = with(2, kBreak, 2);
  EXPECT_TRUE(leave(record, seat(1), kName));
  EXPECT_TRUE(leave(record, seat(2), kName));
  EXPECT_EQ(record.awaited(), 2U);
  const std::uint64_t generation = record.generation;
  EXPECT_GE(generation, 1U);
  EXPECT_TRUE(enter(record, seat(3), 5, kLeave, kName));
  EXPECT_EQ(record.parties, 5U);
  EXPECT_EQ(record.generation, generation);
}

TEST(BarrierRecordTest, BeginsAnewWhenAllAreGone) {
  for (const BarrierPolicy policy : {kBreak, kLeave}) {
    Record record = with(3, policy, 2);
    EXPECT_TRUE(arrive(record, seat(1), kName));
    EXPECT_TRUE(drop_gone(record, {}));
    EXPECT_FALSE(record.broken);
    EXPECT_EQ(record.awaited(), 3U);
    EXPECT_EQ(record.waiting(), 0U);
  }
}

TEST(BarrierRecordTest, AllMustAgreeWhileItIsInUse) {
  Record record = with(3, kBreak, 1);
  EXPECT_EQ(code_of(enter(record, seat(2), 2, kBreak, kName)), Errc::kInvalidArgument);
  EXPECT_EQ(code_of(enter(record, seat(2), 3, kLeave, kName)), Errc::kInvalidArgument);
  EXPECT_TRUE(enter(record, seat(2), 3, kBreak, kName));
  EXPECT_TRUE(enter(record, seat(3), 3, kBreak, kName));
  EXPECT_EQ(code_of(enter(record, seat(4), 3, kBreak, kName)), Errc::kInvalidArgument);
}

TEST(BarrierRecordTest, TheLargestOneFitsBesideALock) {
  Record record;
  record.generation = UINT64_MAX;
  for (std::uint32_t n = 0; n < kMostParties; ++n) {
    ASSERT_TRUE(enter(record, {UINT32_MAX - n, UINT64_MAX}, kMostParties, kLeave, kName));
  }
  const std::string text = write_record(record);
  EXPECT_LE(text.size(), 4096U);
  const auto read = read_record(text, kName);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(*read, record);
}

TEST(BarrierRecordTest, WhatIsNoRecordIsRefused) {
  // parties policy generation broken left arrived_and_left, then members: epoch counter step.
  for (const char* body :
       {"", "2 ", "2 0 0 0 0 ", "0 0 0 0 0 0 ", "101 0 0 0 0 0 ", "2 2 0 0 0 0 ", "2 0 0 2 0 0 ",
        "2 0 0 0 3 0 ", "2 0 0 0 1 2 ", "2 0 0 0 0 0 1 ", "2 0 0 0 0 0 1 1 4 ",
        "2 0 0 0 0 0 4294967296 1 0 ", "2 0 0 0 0 0 1 1 0 1 1 0 ", "2 0 0 0 1 0 1 1 0 1 2 0 ",
        "2 0 0 0 0 0 1 1 0 x", "4294967298 0 0 0 0 0 "}) {
    const auto read = read_record(make_document("barrier", body), kName);
    ASSERT_FALSE(read) << body;
    EXPECT_EQ(read.error().code(), Errc::kCorruptState) << body;
  }
  EXPECT_EQ(read_record("latch 1\n2 2 ", kName).error().code(), Errc::kInvalidArgument);
  EXPECT_TRUE(read_record("", kName));
}

// Whatever is done to a record, it can be read back, and nobody passes whom another is awaited
// with.
TEST(BarrierRecordTest, HoldsWhateverIsDone) {
  std::mt19937 random(20261121);
  const auto any = [&](std::uint64_t below) { return random() % below; };
  for (int run = 0; run < 300; ++run) {
    const auto parties = static_cast<std::uint32_t>(1 + any(4));
    const BarrierPolicy policy = any(2) == 0 ? kBreak : kLeave;
    Record record;
    std::vector<Token> seats;
    std::uint64_t next = 0;
    for (int move = 0; move < 60; ++move) {
      const std::uint64_t generation = record.generation;
      const Token chosen = seats.empty() ? seat(0) : seats[any(seats.size())];
      const std::uint32_t waiting = record.waiting();
      const std::uint32_t awaited = record.awaited();
      switch (any(6)) {
        case 0:
          if (seats.size() == parties) break;
          seats.push_back(seat(++next));
          ASSERT_TRUE(enter(record, seats.back(), parties, policy, kName));
          break;
        case 1:
        case 2:
          if (!arrive(record, chosen, kName) || record.generation == generation) break;
          ASSERT_GE(waiting + 1, awaited) << write_record(record);
          break;
        case 3:
          if (leave(record, chosen, kName)) std::erase(seats, chosen);
          break;
        case 4:
          std::erase(seats, chosen);
          drop_gone(record, seats);
          break;
        default:
          if (any(8) == 0) reopen(record);
          withdraw(record, chosen);
      }
      ASSERT_GE(record.generation, generation);
      if (record.parties == 0) continue;
      const auto read = read_record(write_record(record), kName);
      ASSERT_TRUE(read) << write_record(record);
      ASSERT_EQ(*read, record);
      // A participant that waits, waits for somebody.
      ASSERT_TRUE(record.waiting() == 0 || record.waiting() < record.awaited());
      ASSERT_TRUE(!record.broken || record.waiting() == 0);
    }
  }
}

}  // namespace
}  // namespace holdfast::primitives::barring
