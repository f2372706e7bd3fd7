#include "src/primitives/value_records.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/primitives/document.h"

namespace holdfast::primitives {
namespace {

const std::string kSomeName = "x";

TEST(LatchRecordTest, IsReadBack) {
  const auto count = latching::read_count(latching::write_count({5, 2}), kSomeName, 9);
  ASSERT_TRUE(count);
  EXPECT_EQ(count->initial, 5U);
  EXPECT_EQ(count->left, 2U);
  EXPECT_EQ(latching::read_count("", kSomeName, 9)->left, 9U);
}

TEST(LatchRecordTest, WhatIsNoneIsRefused) {
  for (const char* body : {"", "5", "5 ", "5 6 ", "5 2", "5 2 1 ", "5 -1 ", "5 x "}) {
    const auto count = latching::read_count(make_document("latch", body), kSomeName, 5);
    ASSERT_FALSE(count) << body;
    EXPECT_EQ(count.error().code(), Errc::kCorruptState) << body;
  }
}

TEST(ElectionRecordTest, KeepsTheLastChangesThatFit) {
  electing::Record record;
  const std::string odd("a: 1\n\0", 6);
  for (std::uint64_t n = 1; n <= 40; ++n) {
    const std::string value = n % 2 == 0 ? odd : std::string(1024, 'v');
    const std::string text = electing::with(record, {{1, n}, "host/1", value});
    EXPECT_LE(text.size(), 4096U);
    auto read = electing::read_record(text, kSomeName);
    ASSERT_TRUE(read) << read.error().message();
    EXPECT_EQ(read->last, n);
    EXPECT_LE(read->changes.size(), 16U);
    EXPECT_EQ(read->changes.back(), (LeaderInfo{{1, n}, "host/1", value}));
    record = *std::move(read);
  }
}

TEST(ElectionRecordTest, WhatIsNoneIsRefused) {
  const std::string change = "0000000001.00000000000000000002 1:h 1:v ";
  const std::vector<std::string> bodies = {"",
                                           "1 ",
                                           "0 " + change,
                                           "1 " + change + change,
                                           change,
                                           "1 " + change + " ",
                                           "1 " + change.substr(0, change.size() - 1)};
  for (const std::string& body : bodies) {
    const auto read = electing::read_record(make_document("election", body), kSomeName);
    ASSERT_FALSE(read) << body;
    EXPECT_EQ(read.error().code(), Errc::kCorruptState) << body;
  }
  EXPECT_TRUE(electing::read_record(make_document("election", "1 " + change), kSomeName));
}

TEST(OnceRecordTest, IsTheHoldersOnly) {
  const std::string outcome("charged\n\0 9.99", 14);
  const std::string text = once_only::write_outcome({1, 7}, outcome);
  EXPECT_EQ(once_only::read_outcome(text, kSomeName, {1, 7}).value(), outcome);
  EXPECT_FALSE(once_only::read_outcome(text, kSomeName, {1, 8}).value());
  EXPECT_FALSE(once_only::read_outcome("", kSomeName, {1, 8}).value());
}

TEST(OnceRecordTest, WhatIsNoneIsRefused) {
  for (const char* body : {"", "1.7", "1.7 ", "1.7 2:a ", "1.7 1:a 1:b ", "x 1:a "}) {
    const auto read = once_only::read_outcome(make_document("once", body), kSomeName, {1, 7});
    ASSERT_FALSE(read) << body;
    EXPECT_EQ(read.error().code(), Errc::kCorruptState) << body;
  }
}

}  // namespace
}  // namespace holdfast::primitives
