#include "src/machine/expiry_heap.h"

#include <map>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "src/machine/machine_test_support.h"
#include "src/machine/testing/dice.h"

namespace holdfast::machine {
namespace {

constexpr auto kByNumber = [](std::uint32_t a, std::uint32_t b) { return a < b; };

std::vector<std::uint32_t> drain(ExpiryHeap& heap) {
  std::vector<std::uint32_t> order;
  while (!heap.empty()) {
    order.push_back(heap.top());
    heap.remove(heap.top(), kByNumber);
  }
  return order;
}

TEST(ExpiryHeapTest, TheEarliestEndIsOnTop) {
  ExpiryHeap heap;
  heap.put(1, at(30), 0, kByNumber);
  heap.put(2, at(10), 0, kByNumber);
  heap.put(3, at(20), 0, kByNumber);
  EXPECT_EQ(heap.top_end(), at(10));
  EXPECT_EQ(drain(heap), (std::vector<std::uint32_t>{2, 3, 1}));
}

TEST(ExpiryHeapTest, EqualEndsAreOrderedByTieThenByTheOwner) {
  ExpiryHeap heap;
  heap.put(3, at(10), 5, kByNumber);
  heap.put(2, at(10), 9, kByNumber);
  heap.put(1, at(10), 5, kByNumber);
  EXPECT_EQ(drain(heap), (std::vector<std::uint32_t>{1, 3, 2}));
}

TEST(ExpiryHeapTest, PuttingASlotAgainMovesIt) {
  ExpiryHeap heap;
  for (std::uint32_t i = 0; i < 10; ++i) heap.put(i, at(i), 0, kByNumber);
  heap.put(0, at(100), 0, kByNumber);
  heap.put(9, at(-1), 0, kByNumber);
  EXPECT_EQ(heap.size(), 10U);
  EXPECT_EQ(heap.end_of(0), at(100));
  EXPECT_EQ(drain(heap), (std::vector<std::uint32_t>{9, 1, 2, 3, 4, 5, 6, 7, 8, 0}));
}

TEST(ExpiryHeapTest, ARemovedSlotIsNotContained) {
  ExpiryHeap heap;
  heap.put(4, at(1), 0, kByNumber);
  EXPECT_TRUE(heap.contains(4));
  heap.remove(4, kByNumber);
  EXPECT_FALSE(heap.contains(4));
  EXPECT_FALSE(heap.contains(400));
  EXPECT_TRUE(heap.empty());
}

TEST(ExpiryHeapTest, BehavesLikeASortedListOverRandomChanges) {
  testing::Dice dice(5);
  ExpiryHeap heap;
  std::map<std::uint32_t, std::pair<Instant, std::uint32_t>> model;
  for (int step = 0; step < 20'000; ++step) {
    const auto slot = static_cast<std::uint32_t>(dice.below(80));
    if (model.contains(slot) && dice.one_in(3)) {
      heap.remove(slot, kByNumber);
      model.erase(slot);
    } else {
      // A slot keeps its tie while it is in the heap, as a ticket keeps its id.
      const std::uint32_t tie =
          model.contains(slot) ? model[slot].second : static_cast<std::uint32_t>(dice.below(3));
      model[slot] = {at(static_cast<std::int64_t>(dice.below(40))), tie};
      heap.put(slot, model[slot].first, tie, kByNumber);
    }
    ASSERT_EQ(heap.size(), model.size());
    if (model.empty()) continue;
    auto least = std::tuple(Instant::max(), UINT32_MAX, UINT32_MAX);
    for (const auto& [each, key] : model) {
      least = std::min(least, std::tuple(key.first, key.second, each));
    }
    ASSERT_EQ(heap.top(), std::get<2>(least)) << "step " << step;
    ASSERT_EQ(heap.top_end(), std::get<0>(least));
  }
}

}  // namespace
}  // namespace holdfast::machine
