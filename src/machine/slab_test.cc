#include "src/machine/slab.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast::machine {
namespace {

struct Counted {
  Counted() { ++made; }
  static inline std::uint32_t made = 0;
  std::uint32_t mark = 0;
};

TEST(SlabTest, EverySlotIsAnotherAndNoneMoves) {
  constexpr std::uint32_t kMany = 100;
  for (const std::uint32_t chunk : {1U, 8U, 1'024U}) {
    Slab<std::uint32_t> slab(chunk);
    std::vector<std::uint32_t*> places;
    for (std::uint32_t i = 0; i < kMany; ++i) {
      ASSERT_EQ(slab.take(), i);
      places.push_back(&slab[i]);
      slab[i] = i;
    }
    EXPECT_EQ(std::set<std::uint32_t*>(places.begin(), places.end()).size(), kMany);
    for (std::uint32_t i = 0; i < kMany; ++i) {
      ASSERT_EQ(&slab[i], places[i]);
      ASSERT_EQ(slab[i], i);
    }
  }
}

TEST(SlabTest, MakesSoManyAtOnceAsItWasTold) {
  Slab<Counted> slab(8);
  Counted::made = 0;
  for (std::uint32_t taken = 1; taken <= 100; ++taken) {
    slab.take();
    ASSERT_EQ(Counted::made, (taken + 7) / 8 * 8);
  }
}

TEST(SlabTest, WhatWasGivenBackLastIsTakenNext) {
  Slab<Counted> slab(8);
  const std::uint32_t first = slab.take(), second = slab.take();
  slab[second].mark = 7;
  slab.give_back(first);
  slab.give_back(second);
  EXPECT_EQ(slab.size(), 0U);
  EXPECT_EQ(slab.take(), second);
  EXPECT_EQ(slab[second].mark, 7U);  // As its last user left it.
  EXPECT_EQ(slab.take(), first);
  EXPECT_EQ(slab.used(), 2U);
}

}  // namespace
}  // namespace holdfast::machine
