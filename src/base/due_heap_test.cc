#include "src/base/due_heap.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast::base {
namespace {

using namespace std::chrono_literals;

struct Thing {
  int number = 0;
  std::uint32_t due_place = kNotDue;
};
using Heap = DueHeap<Thing>;
using ThingPtr = std::shared_ptr<Thing>;

BootInstant at(std::uint64_t seconds) { return BootInstant(std::chrono::seconds(seconds)); }

// The heap beside a map, under random calls.
class DueHeapTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 60; ++i) things_.push_back(std::make_shared<Thing>(Thing{i}));
  }
  ~DueHeapTest() override { heap_.clear(); }

  void play_one() {
    const ThingPtr& thing = things_[dice_() % things_.size()];
    if (dice_() % 3 == 0) {
      EXPECT_EQ(heap_.remove(*thing), known_.erase(thing) > 0 ? thing : nullptr);
      return;
    }
    const BootInstant due = at(dice_() % 40);
    heap_.put(thing, due);
    known_[thing] = due;
  }
  BootInstant earliest() const {
    BootInstant least = BootInstant::max();
    for (const auto& [thing, due] : known_) least = std::min(least, due);
    return least;
  }

  std::mt19937 dice_{7};
  std::vector<ThingPtr> things_;
  Heap heap_;
  std::map<ThingPtr, BootInstant> known_;
};

TEST_F(DueHeapTest, TheFirstIsTheEarliestWhateverIsAddedMovedAndRemoved) {
  for (int i = 0; i < 20'000; ++i) {
    play_one();
    ASSERT_EQ(heap_.empty(), known_.empty());
    if (heap_.empty()) continue;
    ASSERT_EQ(heap_.first().at, earliest());
    ASSERT_EQ(known_.at(heap_.first().what), heap_.first().at);
  }
}

TEST_F(DueHeapTest, ItHasEachOnceAndKnowsWhenItIsDue) {
  for (int i = 0; i < 500; ++i) play_one();
  std::map<ThingPtr, BootInstant> found;
  for (const auto& [due, thing] : heap_) {
    EXPECT_TRUE(found.emplace(thing, due).second);
    EXPECT_EQ(heap_.at(*thing), due);
  }
  EXPECT_EQ(found, known_);
  for (const ThingPtr& thing : things_) EXPECT_EQ(Heap::contains(*thing), known_.contains(thing));
}

TEST_F(DueHeapTest, AWalkSeesAllThatAreDueBeforeATime) {
  for (int i = 0; i < 500; ++i) play_one();
  std::map<ThingPtr, BootInstant> due_soon;
  heap_.walk([&](const Heap::Entry& entry) {
    if (entry.at >= at(10)) return false;
    return due_soon.emplace(entry.what, entry.at).second;
  });
  std::erase_if(known_, [](const auto& known) { return known.second >= at(10); });
  EXPECT_EQ(due_soon, known_);
}

TEST_F(DueHeapTest, WhatIsTakenOutIsInNoHeap) {
  Heap other;
  heap_.put(things_[0], at(1));
  heap_.put(things_[1], at(2));
  EXPECT_EQ(heap_.remove(*things_[0]), things_[0]);
  EXPECT_EQ(heap_.remove(*things_[0]), nullptr);
  heap_.clear();
  for (const int i : {0, 1}) other.put(things_[static_cast<std::size_t>(i)], at(3));
  EXPECT_TRUE(heap_.empty());
  EXPECT_EQ(other.first().at, at(3));
}

}  // namespace
}  // namespace holdfast::base
