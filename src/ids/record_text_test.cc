#include "src/ids/record_text.h"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "src/base/fnv.h"
#include "src/base/random.h"

namespace holdfast::ids {
namespace {

std::string sample() {
  return RecordText("segments").add_number("next", 4'001).add("reason", "a=b\nkind=x").text();
}

TEST(RecordTextTest, ReadsWhatItWrote) {
  const auto read = RecordText::parse(sample(), "segments", "it");
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->number<std::uint64_t>("next"), 4'001U);
  EXPECT_EQ(read->value("reason"), "a=b kind=x");
  EXPECT_FALSE(read->value("absent"));
  EXPECT_FALSE(read->number<std::uint64_t>("reason"));
}

TEST(RecordTextTest, AChangedOrShortenedTextIsCorrupt) {
  const std::string whole = sample();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_FALSE(RecordText::parse(changed, "it")) << at;
    const auto cut = RecordText::parse(whole.substr(0, at), "it");
    ASSERT_FALSE(cut) << at;
    EXPECT_EQ(cut.error().code(), Errc::kCorruptState);
  }
  EXPECT_FALSE(RecordText::parse(whole + "\n", "it"));
}

TEST(RecordTextTest, ALaterVersionIsRefusedByItsName) {
  std::string later = "holdfast-ids 2\nkind=of a later version\n";
  later += "checksum=" + base::to_hex(0, base::fnv1a(later)) + "\n";
  const auto read = RecordText::parse(later, "segments", "it");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), Errc::kVersionMismatch) << read.error();
}

TEST(RecordTextTest, AKeyThatComesTwiceIsCorrupt) {
  EXPECT_FALSE(RecordText::parse(RecordText("k").add("a", "1").add("a", "2").text(), "it"));
}

TEST(RecordTextTest, AnotherKindIsRefusedByItsName) {
  const auto read = RecordText::parse(sample(), "workers", "ids/orders");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), Errc::kInvalidArgument);
  EXPECT_NE(read.error().message().find("'segments'"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::ids
