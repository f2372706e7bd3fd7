#include "src/machine/hash_index.h"

#include <set>
#include <string>
#include <unordered_map>

#include <gtest/gtest.h>

#include "src/machine/slab.h"
#include "src/machine/testing/dice.h"

namespace holdfast::machine {
namespace {

TEST(HashIndexTest, AnEmptyIndexFindsNothing) {
  const HashIndex index;
  EXPECT_EQ(index.find(7, [](std::uint32_t) { return true; }), kNone);
}

TEST(HashIndexTest, EqualHashesAreToldApartByTheirKeys) {
  HashIndex index;
  for (std::uint32_t i = 0; i < 5; ++i) index.insert(42, i);
  index.erase(42, 1);
  for (std::uint32_t i = 0; i < 5; ++i) {
    const auto found = index.find(42, [&](std::uint32_t each) { return each == i; });
    EXPECT_EQ(found, i == 1 ? kNone : i);
  }
}

TEST(HashIndexTest, ReservedRoomChangesNoAnswer) {
  HashIndex index;
  index.insert(7, 1);
  index.reserve(100);
  for (std::uint32_t i = 2; i < 300; ++i) index.insert(7 * i, i);
  for (std::uint32_t i = 1; i < 300; ++i) {
    EXPECT_EQ(index.find(7 * i, [&](std::uint32_t each) { return each == i; }), i);
  }
  EXPECT_EQ(index.size(), 299U);
}

// Hashes from a small range collide and wrap around, which is where deletion by shifting can fail.
TEST(HashIndexTest, BehavesLikeAMapOverRandomInsertionsAndErasures) {
  for (const std::uint64_t range : {3ULL, 16ULL, 1ULL << 40}) {
    testing::Dice dice(range);
    HashIndex index;
    std::unordered_map<std::uint32_t, std::uint64_t> model;
    for (int step = 0; step < 4000; ++step) {
      const auto key = static_cast<std::uint32_t>(dice.below(200));
      const auto known = model.find(key);
      if (known == model.end()) {
        const std::uint64_t hash = dice.below(range) + 0xFFFFFFF0ULL;
        index.insert(hash, key);
        model.emplace(key, hash);
      } else {
        index.erase(known->second, key);
        model.erase(known);
      }
      ASSERT_EQ(index.size(), model.size());
      for (const auto& entry : model) {
        const std::uint32_t wanted = entry.first;
        ASSERT_EQ(index.find(entry.second, [&](std::uint32_t i) { return i == wanted; }), wanted);
      }
    }
  }
}

TEST(HashIndexDeathTest, ErasingWhatIsNotThereAborts) {
  HashIndex index;
  index.insert(1, 1);
  EXPECT_DEATH(index.erase(2, 2), "broken invariant");
}

TEST(HashOfTest, EveryByteCounts) {
  std::set<std::uint64_t> hashes;
  std::string text(300, 'a');
  for (std::size_t length = 0; length <= text.size(); ++length) {
    hashes.insert(hash_of(std::string_view(text).substr(0, length), 0));
  }
  for (char& c : text) {
    c = 'b';
    hashes.insert(hash_of(text, 0));
    c = 'a';
  }
  EXPECT_EQ(hashes.size(), 601U);
}

TEST(HashOfTest, TheSeedChangesTheHash) {
  EXPECT_NE(hash_of("orders/42", 0), hash_of("orders/42", 1));
}

TEST(HashOfTest, LowBitsSpreadNamesThatDifferInTheirLastDigits) {
  std::set<std::uint64_t> buckets;
  for (int i = 0; i < 1000; ++i) buckets.insert(hash_of("lock/" + std::to_string(i), 0) % 1024);
  EXPECT_GT(buckets.size(), 580U);  // 1024 * (1 - 1/e) = 638 are expected of perfect chance.
}

TEST(SlabTest, AGivenBackSlotIsTheNextToBeUsed) {
  Slab<int> slab(8);
  const auto a = slab.take();
  const auto b = slab.take();
  EXPECT_NE(a, b);
  slab.give_back(a);
  EXPECT_EQ(slab.size(), 1U);
  EXPECT_EQ(slab.take(), a);
  EXPECT_EQ(slab.used(), 2U);
}

TEST(SlabTest, ObjectsStayWhereTheyAreWhileTheSlabGrows) {
  Slab<int> slab(8);
  const auto first = slab.take();
  int* place = &slab[first];
  *place = 7;
  for (int i = 0; i < 5000; ++i) slab[slab.take()] = i;
  EXPECT_EQ(&slab[first], place);
  EXPECT_EQ(slab[first], 7);
  EXPECT_EQ(slab[5000], 4999);
}

}  // namespace
}  // namespace holdfast::machine
