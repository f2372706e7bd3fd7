#include "src/stores/etcd/transport/versions.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace holdfast::stores::etcd {
namespace {

bool names(const std::string& version, const std::string& bug) {
  const auto findings = judge_version(version);
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& each) {
    return each.what.find(bug) != std::string::npos && !each.advice.empty();
  });
}

TEST(EtcdVersionsTest, VersionsWithKnownLeaseBugsAreNamed) {
  EXPECT_TRUE(names("3.4.23", "#15247"));
  EXPECT_TRUE(names("3.4.23", "#20590"));
  EXPECT_TRUE(names("3.4.23", "#20418"));
  EXPECT_FALSE(names("3.4.31", "#15247"));
  EXPECT_TRUE(names("3.5.12", "#15247"));
  EXPECT_FALSE(names("3.5.16", "#15247"));
  EXPECT_TRUE(names("3.5.16", "#20590"));
  EXPECT_FALSE(names("3.6.0", "#15247"));
  EXPECT_TRUE(names("3.6.4", "#20590"));
  EXPECT_TRUE(judge_version("3.6.5").empty());
}

TEST(EtcdVersionsTest, LeasesMayEndEarlyUpToTwoPatches) {
  EXPECT_TRUE(may_end_leases_early("3.4.23"));
  EXPECT_FALSE(may_end_leases_early("3.4.31"));
  EXPECT_TRUE(may_end_leases_early("3.5.12"));
  EXPECT_FALSE(may_end_leases_early("3.5.13"));
  EXPECT_FALSE(may_end_leases_early("3.6.0"));
  EXPECT_TRUE(may_end_leases_early("not understood"));
}

TEST(EtcdVersionsTest, DataThatMayDifferIsAProblem) {
  const auto findings = judge_version("3.5.1");
  EXPECT_TRUE(std::any_of(findings.begin(), findings.end(), [](const Finding& each) {
    return each.severity == Severity::kProblem && each.what.find("#13766") != std::string::npos;
  }));
  EXPECT_FALSE(names("3.4.23", "#13766"));
}

TEST(EtcdVersionsTest, AVersionThatIsTooOldOrNoneIsSaidSo) {
  EXPECT_EQ(judge_version("3.3.27").at(0).severity, Severity::kProblem);
  EXPECT_EQ(judge_version("three").at(0).severity, Severity::kWarning);
  EXPECT_EQ(judge_version("3.5").at(0).severity, Severity::kWarning);
}

}  // namespace
}  // namespace holdfast::stores::etcd
