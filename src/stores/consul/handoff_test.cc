#include "src/stores/consul/handoff.h"

#include <gtest/gtest.h>

namespace holdfast::stores::consul {
namespace {

constexpr char kKey[] = "holdfast/l/orders/c/1-x";

std::string pair(const std::string& key, const std::string& value, int created, int modified) {
  return R"({"Key":")" + key + R"(","Value":")" + to_base64(value) +
         R"(","Session":"s","CreateIndex":)" + std::to_string(created) + R"(,"ModifyIndex":)" +
         std::to_string(modified) + "}";
}
std::string stands(int created, int modified) { return pair(kKey, "hf1", created, modified); }
std::string left(std::uint64_t order, std::uint64_t token) {
  return pair(out_of(kKey), to_text(HandoffNote{order, token}), 50, 50);
}
Watches::Seen seen(const std::string& pairs) {
  return judge({200, 60, "[" + pairs + "]"}, kKey, 40, 41);
}

TEST(ConsulHandoff, ReadsWhatItWrites) {
  const auto read = parse_handoff(to_text(HandoffNote{18446744073709551615ULL, 7}));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->order, 18446744073709551615ULL);
  EXPECT_EQ(read->token, 7U);
}

TEST(ConsulHandoff, AnythingElseIsNone) {
  for (const char* text : {"", "hf1", "hf1 order= token=1", "hf1 order=1",
                           "hf1 order=1 token=", "hf1 order=1 token=2 ", "hf1 order=-1 token=2",
                           "hf2 order=1 token=2", "hf1 order=18446744073709551616 token=2"}) {
    EXPECT_FALSE(parse_handoff(text)) << text;
  }
}

TEST(ConsulHandoff, WhatStandsAsItDidIsTheSame) {
  EXPECT_TRUE(seen(stands(40, 41)).same);
  EXPECT_TRUE(seen(stands(40, 41) + "," + left(40, 40)).same) << "of an earlier one";
  EXPECT_FALSE(seen(stands(40, 42)).same) << "it was written";
  EXPECT_FALSE(seen(stands(55, 55)).same) << "the name came again";
  EXPECT_FALSE(judge({404, 60, "[]"}, kKey, 40, 41).same);
}

TEST(ConsulHandoff, WhatItLeavesIsHandedOn) {
  const auto gone = seen(left(40, 43));
  EXPECT_FALSE(gone.same);
  ASSERT_TRUE(gone.handed_off);
  EXPECT_EQ(gone.handed_off->counter, 43U);
  EXPECT_TRUE(seen(stands(55, 55) + "," + left(40, 43)).handed_off) << "the name came again";
}

TEST(ConsulHandoff, WhatAnotherLeftIsNot) {
  EXPECT_FALSE(seen(left(39, 43)).handed_off);
  EXPECT_FALSE(seen(stands(40, 42)).handed_off);
  EXPECT_FALSE(seen(pair(out_of(kKey), "something", 50, 50)).handed_off);
  EXPECT_FALSE(judge({404, 60, "[]"}, kKey, 40, 41).handed_off);
  EXPECT_FALSE(judge({500, 0, "no"}, kKey, 40, 41).handed_off);
  EXPECT_FALSE(judge({200, 60, "{"}, kKey, 40, 41).handed_off);
}

}  // namespace
}  // namespace holdfast::stores::consul
