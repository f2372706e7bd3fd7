#include "src/stores/hybrid/url.h"

#include <string>

#include <gtest/gtest.h>

namespace holdfast::stores::hybrid {
namespace {

using namespace std::chrono_literals;

Result<HybridAddress> parse(const std::string& text) {
  return parse_hybrid_url(*port::StoreUrl::parse(text));
}

TEST(HybridUrlTest, NamesAFilterAndAnArbiterWithOptionsOfTheirOwn) {
  const auto url = parse(
      "hybrid:?filter=redis%3A%2F%2Fr:1%3Fconnect_timeout%3D2s&arbiter=etcd://e1:2,e2:2&patience="
      "3s");
  ASSERT_TRUE(url) << url.error().message();
  EXPECT_EQ(url->filter.scheme, "redis");
  EXPECT_EQ(url->filter.options.size(), 1U);
  EXPECT_EQ(url->arbiter.authority, "e1:2,e2:2");
  EXPECT_EQ(url->patience, 3s);
  EXPECT_EQ(url->recheck, 1s);
  EXPECT_EQ(url->filter_timeout, 250ms);
  EXPECT_EQ(url->filter_lease, 5s);
}

TEST(HybridUrlTest, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"hybrid:?arbiter=etcd://e", "filter= is missing"},
      {"hybrid:?filter=redis://r", "arbiter= is missing"},
      {"hybrid:?filter=redis://r&arbiter=redis://r", "the same store"},
      {"hybrid:?filter=redis://u:p@r&arbiter=redis://r", "the same store"},
      {"hybrid:?filter=redis&arbiter=etcd://e", "filter: "},
      {"hybrid:?filter=redis://r&arbiter=hybrid:", "cannot be a hybrid"},
      {"hybrid:?filter=redis://r%3Fns%3Da&arbiter=etcd://e", "in the outer URL"},
      {"hybrid://host?filter=redis://r&arbiter=etcd://e", "without a host"},
      {"hybrid:?filter=redis://r&arbiter=etcd://e&patients=1s", "patients"},
      {"hybrid:?filter=redis://r&arbiter=etcd://e&filter_lease=1ms", "filter_lease"},
  };
  for (const auto& [text, part] : cases) {
    const auto url = parse(text);
    ASSERT_FALSE(url) << text;
    EXPECT_EQ(url.error().code(), Errc::kInvalidArgument);
    EXPECT_NE(url.error().message().find(part), std::string::npos) << url.error().message();
  }
}

}  // namespace
}  // namespace holdfast::stores::hybrid
