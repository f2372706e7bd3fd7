#include "src/ids/segments/slots.h"

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast::ids {
namespace {

// The next number, without waiting; 0: none.
std::uint64_t take(Slots& slots) {
  for (;;) {
    const Slots::Look seen = slots.look();
    if (seen.left() == 0) {
      if (!slots.advance(seen)) return 0;
    } else if (slots.claim(seen, 1)) {
      return seen.first + seen.offset();
    }
  }
}

TEST(SlotsTest, OneRangeFollowsTheOther) {
  Slots slots;
  EXPECT_EQ(take(slots), 0U);
  EXPECT_TRUE(slots.fill(100, 2, 1));
  EXPECT_FALSE(slots.fill(200, 2, 1)) << "the next slot was filled twice";
  EXPECT_EQ(take(slots), 100U);
  EXPECT_TRUE(slots.fill(200, 1, 1));
  EXPECT_EQ(take(slots), 101U);
  EXPECT_EQ(take(slots), 200U);
  EXPECT_EQ(take(slots), 0U);
}

TEST(SlotsTest, AClaimOfAnOldGenerationFails) {
  Slots slots;
  slots.fill(100, 2, 1);
  EXPECT_EQ(take(slots), 100U);
  const Slots::Look asleep = slots.look();  // At offset 1 of this slot.
  EXPECT_EQ(take(slots), 101U);
  slots.fill(200, 1, 1);
  EXPECT_EQ(take(slots), 200U);
  slots.fill(300, 2, 1);  // The same slot as the first range, and the same offset soon.
  EXPECT_EQ(take(slots), 300U);
  EXPECT_FALSE(slots.claim(asleep, 1)) << "101 would be given twice";
  EXPECT_EQ(take(slots), 301U);
}

TEST(SlotsTest, OneClaimReachesTheLevel) {
  Slots slots;
  slots.fill(100, 10, 4);
  take(slots);
  Slots::Look seen = slots.look();
  EXPECT_FALSE(seen.reaches_level(2));
  EXPECT_TRUE(seen.reaches_level(3));
  ASSERT_TRUE(slots.claim(seen, 3));
  seen = slots.look();
  EXPECT_FALSE(seen.reaches_level(1)) << "the claim before came to the level";
}

TEST(SlotsTest, NothingIsClaimedAfterShut) {
  Slots slots;
  slots.fill(100, 5, 1);
  take(slots);
  const Slots::Look seen = slots.look();
  slots.fill(200, 5, 1);
  slots.shut();
  EXPECT_FALSE(slots.claim(seen, 1));
  EXPECT_EQ(take(slots), 0U);
}

// Small ranges, so that the slots change all the time under the callers.
TEST(SlotsTest, ThreadsNeverTakeANumberTwice) {
  constexpr std::uint64_t kNumbers = 400'000;
  constexpr int kThreads = 4;
  Slots slots;
  std::vector<std::vector<std::uint64_t>> taken(kThreads);
  std::atomic<std::uint64_t> left = kNumbers;
  {
    std::vector<std::jthread> threads;
    for (auto& mine : taken) {
      threads.emplace_back([&slots, &left, &mine] {
        while (left.load(std::memory_order_relaxed) != 0) {
          const std::uint64_t number = take(slots);
          if (number == 0) {
            std::this_thread::yield();
            continue;
          }
          mine.push_back(number);
          left.fetch_sub(1, std::memory_order_relaxed);
        }
      });
    }
    std::uint64_t next = 1;
    for (std::uint32_t size = 1; next <= kNumbers; size = size % 7 + 1) {
      const auto count =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(size, kNumbers - next + 1));
      while (!slots.fill(next, count, 1)) std::this_thread::yield();
      next += count;
    }
  }
  std::vector<std::uint64_t> all;
  for (const auto& mine : taken) {
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), kNumbers);
  for (std::uint64_t i = 0; i < kNumbers; ++i) ASSERT_EQ(all[i], i + 1);
}

}  // namespace
}  // namespace holdfast::ids
