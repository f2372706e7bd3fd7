#include "src/stores/redis/protocol/scripts.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace holdfast::stores::redis
