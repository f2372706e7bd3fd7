#include "src/stores/zookeeper/doctor.h"

#include <gtest/gtest.h>

namespace holdfast::stores::zookeeper {
namespace {

using std::chrono_literals::operator""ms;

TEST(ZookeeperDoctorTest, ASessionOfLessThanSixTicksIsWarnedOf) {
  EXPECT_EQ(ticks_finding(12000ms, 4000ms).severity, Severity::kOk);
  const Finding few = ticks_finding(11999ms, 4000ms);
  EXPECT_EQ(few.severity, Severity::kWarning);
  EXPECT_NE(few.what.find("2000 ms"), std::string::npos) << few.what;
  EXPECT_NE(few.advice.find("session=12000ms"), std::string::npos) << few.advice;
}

TEST(ZookeeperDoctorTest, ASessionOfAnotherLengthThanAskedForIsWarnedOf) {
  EXPECT_EQ(length_finding(4000ms, 4000ms).severity, Severity::kOk);
  const Finding shorter = length_finding(4000ms, 10000ms);
  EXPECT_EQ(shorter.severity, Severity::kWarning);
  EXPECT_NE(shorter.what.find("4000 ms, not 10000 ms"), std::string::npos) << shorter.what;
}

}  // namespace
}  // namespace holdfast::stores::zookeeper
