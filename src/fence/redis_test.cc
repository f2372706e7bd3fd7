#include "holdfast/fence/redis.h"

#include <gtest/gtest.h>

namespace holdfast::fence::redis {
namespace {

TEST(FenceRedisTest, TheRecordSharesTheSlotOfItsKey) {
  EXPECT_EQ(*record_key("stock"), "holdfast-fence:{stock}");
  EXPECT_EQ(*record_key("{shop}:stock"), "holdfast-fence:{shop}:{shop}:stock");
  EXPECT_EQ(*record_key("a{b"), "holdfast-fence:{a{b}");
  EXPECT_EQ(*record_key("x{a}{b}"), "holdfast-fence:{a}:x{a}{b}");
}

TEST(FenceRedisTest, AKeyWhoseSlotNoOtherKeyCanShareIsRefused) {
  for (const char* key : {"", "a}b", "{}", "{}a", "}"}) {
    EXPECT_EQ(record_key(key).error().code(), Errc::kInvalidArgument) << key;
  }
}

TEST(FenceRedisTest, TheCommandNamesItsKeysAndArguments) {
  const auto words = guarded_set("stock", "9", Token{0, 5}, Mode::shared());
  ASSERT_TRUE(words.has_value());
  ASSERT_EQ(words->size(), 8U);
  EXPECT_EQ((*words)[0], "EVAL");
  EXPECT_EQ((*words)[2], "2");
  EXPECT_EQ((*words)[3], "holdfast-fence:{stock}");
  EXPECT_EQ((*words)[4], "stock");
  EXPECT_EQ((*words)[5], "0000000000.00000000000000000005");
  EXPECT_EQ((*words)[6], "shared");
  EXPECT_EQ((*words)[7], "9");
}

TEST(FenceRedisTest, WhatCannotBeGuardedIsRefusedBeforeItIsSent) {
  const Token token{0, 5};
  EXPECT_EQ(guarded_eval("", {}, {}, token).error().code(), Errc::kInvalidArgument);
  EXPECT_EQ(guarded_eval("", {"a", "b"}, {}, token).error().code(), Errc::kInvalidArgument);
  EXPECT_TRUE(guarded_eval("", {"{t}a", "{t}b", "t"}, {}, token).has_value());
  EXPECT_EQ(guarded_set("a", "1", Token{}).error().code(), Errc::kInvalidArgument);
  EXPECT_EQ(guarded_set("a", "1", token, Mode::permits(1, 2)).error().code(), Errc::kUnsupported);
}

TEST(FenceRedisTest, ErrorRepliesSayTheNextStep) {
  EXPECT_EQ(refusal("FENCED a is not the newest").code(), Errc::kLost);
  EXPECT_EQ(refusal("-FENCED").code(), Errc::kLost);
  EXPECT_EQ(refusal("FENCECORRUPT x").code(), Errc::kCorruptState);
  EXPECT_EQ(refusal("FENCEARG x").code(), Errc::kInvalidArgument);
  EXPECT_EQ(refusal("OOM command not allowed").code(), Errc::kOutcomeUnknown);
  EXPECT_EQ(refusal("FENCEDX").code(), Errc::kOutcomeUnknown);
}

}  // namespace
}  // namespace holdfast::fence::redis
