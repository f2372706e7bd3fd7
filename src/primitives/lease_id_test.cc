#include "src/primitives/lease_id.h"

#include <gtest/gtest.h>

namespace holdfast::primitives {
namespace {

TEST(LeaseIdTest, RoundTripsAnyNameAndMode) {
  for (const Mode& mode : {Mode::exclusive(), Mode::shared(), Mode::permits(3, 10)}) {
    for (const char* name : {"a", "a.b/c d", "100%", "{}'\"日本"}) {
      const LeaseId id{name, mode, std::chrono::seconds(30), {1, 0xfedcba9876543210ULL}};
      const auto parsed = parse_lease_id(format_lease_id(id));
      ASSERT_TRUE(parsed.has_value()) << format_lease_id(id);
      EXPECT_EQ(parsed->name, id.name);
      EXPECT_EQ(parsed->mode, id.mode);
      EXPECT_EQ(parsed->ttl, id.ttl);
      EXPECT_EQ(parsed->id, id.id);
    }
  }
}

TEST(LeaseIdTest, IsSafeInAShell) {
  const std::string text =
      format_lease_id({"a b;$(rm)'\"*", Mode::exclusive(), std::chrono::seconds(1), {1, 2}});
  EXPECT_EQ(text.find_first_of(" ;$()'\"*&|<>"), std::string::npos) << text;
}

TEST(LeaseIdTest, AnythingElseIsRefused) {
  const std::string hex(32, '1');
  for (const std::string& text :
       {std::string(), std::string("hf1"), "hf2.e.9." + hex + ".a", "hf1.x.9." + hex + ".a",
        "hf1.e.9." + hex + ".", "hf1.e.9." + hex, "hf1.e.9." + hex.substr(1) + ".a",
        "hf1.e.9." + std::string(32, '0') + ".a", "hf1.e.9." + std::string(32, 'g') + ".a",
        "hf1.p0of3.9." + hex + ".a", "hf1.p4of3.9." + hex + ".a", "hf1.p1.9." + hex + ".a",
        "hf1.e.9." + hex + ".a%2", "hf1.e.9." + hex + ".a b", "hf1.e." + hex + ".a",
        "hf1.e.0." + hex + ".a", "hf1.e.-9." + hex + ".a"}) {
    EXPECT_FALSE(parse_lease_id(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace holdfast::primitives
