#include "src/port/multi_request.h"

#include <gtest/gtest.h>

namespace holdfast::port {
namespace {

AcquireRequest request(std::string name) {
  AcquireRequest made;
  made.name = std::move(name);
  return made;
}

TEST(MultiRequestTest, OneToSixtyFourDifferentNamesAreFine) {
  std::vector<AcquireRequest> all;
  EXPECT_FALSE(check_multi(all));
  for (std::size_t i = 0; i < kMostAtOnce; ++i) {
    all.push_back(request(std::to_string(i)));
    EXPECT_TRUE(check_multi(all));
  }
  all.push_back(request("one more"));
  EXPECT_FALSE(check_multi(all));
}

TEST(MultiRequestTest, ANameTwiceAndAnUpgradeAreRefused) {
  EXPECT_FALSE(check_multi({request("a"), request("b"), request("a")}));
  auto upgrade = request("b");
  upgrade.upgrade_of = {0, 1};
  EXPECT_FALSE(check_multi({request("a"), upgrade}));
}

}  // namespace
}  // namespace holdfast::port
