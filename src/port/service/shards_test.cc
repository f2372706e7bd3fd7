#include "src/port/service/shards.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast::port {
namespace {

// Journals and clients of other versions rely on these.
TEST(ShardsTest, TheShardOfANameNeverChanges) {
  EXPECT_EQ(shard_of("", 8), 1U);
  EXPECT_EQ(shard_of("orders/42", 8), 1U);
  EXPECT_EQ(shard_of("nightly-backup", 64), 63U);
  EXPECT_EQ(shard_of("\xe9\x94\x81", 3), 2U);
}

TEST(ShardsTest, OneShardHasEveryName) {
  for (const char* name : {"", "a", "orders/42"}) EXPECT_EQ(shard_of(name, 1), 0U) << name;
}

// Names that people give: they differ in a few digits.
TEST(ShardsTest, NumberedNamesAreSpreadEvenly) {
  for (const std::uint32_t shards : {2U, 3U, 8U, 64U}) {
    std::vector<std::size_t> counts(shards);
    constexpr std::size_t kEach = 1'000;
    for (std::size_t i = 0; i < kEach * shards; ++i) {
      ++counts[shard_of("orders/" + std::to_string(i), shards)];
    }
    const auto [fewest, most] = std::minmax_element(counts.begin(), counts.end());
    EXPECT_GT(*fewest, kEach * 8 / 10) << shards;
    EXPECT_LT(*most, kEach * 12 / 10) << shards;
  }
}

}  // namespace
}  // namespace holdfast::port
