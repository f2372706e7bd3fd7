#include "src/stores/failover/record.h"

#include <gtest/gtest.h>

namespace holdfast::stores::failover {
namespace {

ChainRecord example() { return {"c1", "a1", 7, 5, 1, true, 10'000, 20'000}; }

TEST(FailoverRecordTest, ItIsReadAsItWasWritten) {
  const auto read = read_record(to_text(example()));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(*read, example());
}

TEST(FailoverRecordTest, AnythingElseIsAnError) {
  for (const std::string& text :
       {std::string(), std::string("x"), std::string("holdfast-failover 1\n"),
        to_text(example()).substr(0, 60), std::string("holdfast-failover 1\nepoch -1\n"),
        std::string(5000, 'x')}) {
    const auto read = read_record(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code(), Errc::kCorruptState);
  }
  EXPECT_EQ(read_record("holdfast-failover 2\n").error().code(), Errc::kVersionMismatch);
}

TEST(FailoverRecordTest, AStampIsOfOneEpochAndOneAuthority) {
  ChainRecord later = example();
  later.epoch = 8;
  EXPECT_NE(stamp_of(later), stamp_of(example()));
  EXPECT_TRUE(is_ours(stamp_of(later), example()));
  ChainRecord other = example();
  other.authority = "a2";
  EXPECT_FALSE(is_ours(stamp_of(other), example()));
}

}  // namespace
}  // namespace holdfast::stores::failover
