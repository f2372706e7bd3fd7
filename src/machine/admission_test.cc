#include "src/machine/admission.h"

#include <vector>

#include <gtest/gtest.h>

#include "src/machine/testing/admission_list.h"
#include "src/machine/testing/dice.h"

namespace holdfast::machine {
namespace {

using testing::next_admitted;
using testing::Standing;

constexpr Mode kX = Mode::exclusive();
constexpr Mode kS = Mode::shared();
constexpr Mode permits(std::uint32_t n) { return Mode::of_permits(n, 4); }

// The holders once everybody who may be admitted has been.
std::vector<bool> admitted(std::vector<Standing> queue, std::uint32_t capacity = 1) {
  while (const auto next = next_admitted(queue, capacity)) queue[*next].held = true;
  std::vector<bool> held;
  held.reserve(queue.size());
  for (const Standing& ticket : queue) held.push_back(ticket.held);
  return held;
}

using Held = std::vector<bool>;

TEST(AdmissionTest, AnExclusiveTicketStandsAlone) {
  EXPECT_EQ(admitted({{kX}, {kX}, {kS}}), (Held{true, false, false}));
}

TEST(AdmissionTest, ReadersUpToTheFirstWriterHoldTogether) {
  EXPECT_EQ(admitted({{kS}, {kS}, {kX}, {kS}}), (Held{true, true, false, false}));
}

TEST(AdmissionTest, PermitsAreAdmittedWhileTheSumFits) {
  EXPECT_EQ(admitted({{permits(2)}, {permits(2)}, {permits(1)}}, 4), (Held{true, true, false}));
}

TEST(AdmissionTest, ALargeRequestIsNotOvertakenByASmallOne) {
  EXPECT_EQ(admitted({{permits(2)}, {permits(3)}, {permits(1)}}, 4), (Held{true, false, false}));
}

TEST(AdmissionTest, AnUpgradeWaitsForTheOtherReaders) {
  EXPECT_EQ(admitted({{kS, true}, {kS, true}, {kX, false, true}}), (Held{true, true, false}));
}

TEST(AdmissionTest, AnUpgradePassesTheWaitersAheadOfIt) {
  EXPECT_EQ(admitted({{kS, true}, {kX}, {kX, false, true}}), (Held{true, false, true}));
}

TEST(AdmissionTest, AnUpgradeBlocksThoseBehindIt) {
  EXPECT_EQ(admitted({{kS, true}, {kS, true}, {kX, false, true}, {kS}}),
            (Held{true, true, false, false}));
}

TEST(AdmissionTest, AnAdmittedUpgradeKeepsOutTheReadersThatItPassed) {
  EXPECT_EQ(admitted({{kS, true}, {kS}, {kX, true, true}}), (Held{true, false, true}));
}

TEST(AdmissionTest, AnEmptyQueueAdmitsNobody) { EXPECT_EQ(next_admitted({}, 1), std::nullopt); }

TEST(AdmissionTest, PermitsAndOtherModesNeverHoldTogether) {
  Occupancy held;
  held.add(kS);
  EXPECT_FALSE(held.admits(permits(1), 4));
  held.remove(kS);
  held.add(permits(1));
  EXPECT_FALSE(held.admits(kS, 4));
  EXPECT_FALSE(held.admits(kX, 4));
  EXPECT_FALSE(held.admits_upgrade());
  EXPECT_TRUE(held.admits(permits(3), 4));
}

TEST(AdmissionTest, WhatWasAddedAndRemovedLeavesNothing) {
  Occupancy held;
  for (const Mode& mode : {kX, kS, permits(3)}) held.add(mode);
  for (const Mode& mode : {permits(3), kX, kS}) held.remove(mode);
  EXPECT_TRUE(held.empty());
  EXPECT_EQ(held, Occupancy{});
}

TEST(AdmissionTest, SumsOfPermitsDoNotOverflow) {
  Occupancy held;
  const Mode all = Mode::of_permits(UINT32_MAX, UINT32_MAX);
  held.add(all);
  EXPECT_FALSE(held.admits(Mode::of_permits(1, UINT32_MAX), UINT32_MAX));
  held.add(all);
  EXPECT_FALSE(held.admits(all, UINT32_MAX));
}

// "Compatible with every ticket before it", said pair by pair.
Held by_definition(const std::vector<Standing>& queue, std::uint32_t capacity) {
  Held held(queue.size());
  for (std::size_t i = 0; i < queue.size(); ++i) {
    std::uint64_t sum = queue[i].mode.permits;
    bool compatible = true;
    for (std::size_t j = 0; j < i; ++j) {
      sum += queue[j].mode.permits;
      compatible = compatible && queue[i].mode.kind != ModeKind::kExclusive &&
                   queue[j].mode.kind != ModeKind::kExclusive;
    }
    held[i] = compatible && (queue[i].mode.kind != ModeKind::kPermits || sum <= capacity);
  }
  return held;
}

TEST(AdmissionTest, AdmittingOneByOneIsTheRuleAppliedToAll) {
  testing::Dice dice(1);
  for (int round = 0; round < 2000; ++round) {
    const bool counting = dice.one_in(2);
    std::vector<Standing> queue(dice.below(9));
    for (Standing& ticket : queue) {
      ticket.mode = counting         ? permits(static_cast<std::uint32_t>(1 + dice.below(4)))
                    : dice.one_in(3) ? kX
                                     : kS;
    }
    ASSERT_EQ(admitted(queue, 4), by_definition(queue, 4)) << "round " << round;
  }
}

}  // namespace
}  // namespace holdfast::machine
