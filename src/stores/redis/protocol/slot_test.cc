#include "src/stores/redis/protocol/slot.h"

#include <set>

#include <gtest/gtest.h>

#include "src/stores/redis/protocol/keys.h"
#include "src/stores/redis/protocol/requests.h"

namespace holdfast::stores::redis {
namespace {

// The slots of the specification, and of CLUSTER KEYSLOT on Redis 7.0.
TEST(RedisSlotTest, KeysLieWhereTheServerHasThem) {
  EXPECT_EQ(slot_of_key("123456789"), 0x31c3);
  EXPECT_EQ(slot_of_key("foo"), 12182);
  EXPECT_EQ(slot_of_key("{foo}.bar"), 12182);
  EXPECT_EQ(slot_of_key("x{foo}{bar}"), 12182);
  EXPECT_NE(slot_of_key("{}foo"), 12182) << "an empty tag is none";
  EXPECT_EQ(slot_of_key(""), 0);
}

TEST(RedisSlotTest, AllKeysOfALockShareItsSlotWhateverItsNameHas) {
  for (const char* name : {"a", "orders/42", "{x}", "a}b{c", "%", "}{", "name with spaces"}) {
    const std::uint16_t slot = slot_of(name);
    for (const char* end : {"", ":t", ":h", ":w", ":q", ":m", ":b", ":v"}) {
      EXPECT_EQ(slot_of_key(record_key(name) + end), slot) << name << end;
    }
  }
}

TEST(RedisSlotTest, EverySlotHasATagOfItsOwn) {
  const SlotTags tags;
  std::set<std::string> all;
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    const std::string tag = tags.of(static_cast<std::uint16_t>(slot));
    ASSERT_EQ(slot_of_key(tag), slot);
    ASSERT_EQ(slot_of_key("hf1:@0123456789abcdef" + tag), slot);
    all.insert(tag);
  }
  EXPECT_EQ(all.size(), kSlots);
  // Clients of other versions use the same channels.
  EXPECT_EQ(tags.of(slot_of_key("0")), "{0}");
  EXPECT_EQ(tags.of(slot_of_key("41")), "{41}");
}

TEST(RedisSlotTest, ANameIsFoundInEachSlot) {
  for (const int slot : {0, 1, 8191, 16383}) {
    const auto wanted = static_cast<std::uint16_t>(slot);
    const std::string name = name_in_slot("ns/@confirmed", wanted);
    EXPECT_TRUE(name.starts_with("ns/@confirmed"));
    EXPECT_EQ(slot_of(name), wanted);
  }
}

TEST(RedisSlotTest, ARequestOfAClusterEndsWithItsTag) {
  const Requests ours("0123456789abcdef", {}, ScriptHost::kCluster);
  const ScriptCall call = ours.call(ScriptName::kInspect, "a", {});
  EXPECT_EQ(call.slot(), slot_of("a"));
  EXPECT_TRUE(call.by_hash().ends_with(SlotTags().of(slot_of("a")) + "\r\n"));
  EXPECT_EQ(ours.channel_in(call.slot()),
            "hf1:@0123456789abcdef" + SlotTags().of(slot_of("a")));
  const Requests single("0123456789abcdef", {});
  EXPECT_EQ(single.slot_of("a"), 0);
  EXPECT_EQ(single.channel_in(0), "hf1:@0123456789abcdef");
}

}  // namespace
}  // namespace holdfast::stores::redis
