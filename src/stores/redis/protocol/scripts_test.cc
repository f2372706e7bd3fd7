#include "src/stores/redis/protocol/scripts.h"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "src/stores/redis/protocol/answers.h"
#include "src/stores/redis/protocol/keys.h"
#include "src/stores/redis/protocol/script_call.h"

namespace holdfast::stores::redis {
namespace {

// These scripts write, or look at more than the record.
constexpr ScriptName kCareful[] = {
    ScriptName::kAcquire, ScriptName::kEnd,      ScriptName::kRenew,
    ScriptName::kBreak,   ScriptName::kResize,   ScriptName::kDowngrade,
    ScriptName::kInspect, ScriptName::kSetValue, ScriptName::kAcquireAll,
};

bool has(const Script& script, std::string_view text) {
  return script.text.find(text) != std::string::npos;
}

TEST(RedisScriptsTest, OnlyAClustersTextLooksForMovingSlots) {
  for (const ScriptName name : kCareful) {
    const Script& single = script(name);
    const Script& cluster = script(name, ScriptClock::kServer, ScriptHost::kCluster);
    EXPECT_FALSE(has(single, "TRYAGAIN"));
    EXPECT_FALSE(has(single, "SPUBLISH"));
    EXPECT_TRUE(has(cluster, "TRYAGAIN"));
    EXPECT_FALSE(has(cluster, "'PUBLISH'")) << "every node would get it";
    EXPECT_FALSE(has(single, "--@") || has(cluster, "--@"));
    EXPECT_NE(single.sha1, cluster.sha1);
  }
}

TEST(ScriptCallTest, WordsWithoutACopyAreThoseWithOne) {
  for (const std::string name : {"a", "orders/1", "50%", "{x}", "{", "}"}) {
    ScriptCall direct(ScriptName::kEnd), copied(ScriptName::kEnd);
    direct.add_lock(name);
    copied.add_key(record_key(name));
    for (const std::uint64_t number :
         {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{999'999'999'999'999},
          std::uint64_t{9'999'999'999'999'999}, std::uint64_t{10'000'000'000'000'000},
          UINT64_MAX}) {
      direct.add_padded(number);
      copied.add(padded(number));
      direct.add_id({number, ~number});
      copied.add(id_text({number, ~number}));
    }
    EXPECT_EQ(direct.by_hash(), copied.by_hash()) << name;
    EXPECT_EQ(direct.key_count(), copied.key_count());
  }
}

}  // namespace
}  // namespace holdfast::stores::redis
