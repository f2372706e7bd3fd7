#include "src/stores/consul/doctor.h"

#include <gtest/gtest.h>

namespace holdfast::stores::consul {
namespace {

Severity of_agent(const std::string& self, const std::string& topic) {
  std::vector<Finding> findings;
  judge_agent(self, findings);
  for (const Finding& finding : findings) {
    if (finding.topic == topic) return finding.severity;
  }
  return Severity::kOk;
}

TEST(ConsulDoctorTest, TheVersionIsJudged) {
  EXPECT_EQ(of_agent(R"({"Config":{"Version":"1.8.7"}})", "version"), Severity::kOk);
  EXPECT_EQ(of_agent(R"({"Config":{"Version":"1.21.0"}})", "version"), Severity::kOk);
  EXPECT_EQ(of_agent(R"({"Config":{"Version":"1.6.2"}})", "version"), Severity::kWarning);
  for (const char* odd : {"", "[]", "{}", R"({"Config":3})", R"({"Config":{"Version":7}})"}) {
    EXPECT_EQ(of_agent(odd, "version"), Severity::kWarning) << odd;
  }
}

TEST(ConsulDoctorTest, FewConnectionsAreAWarning) {
  const auto with = [](int limit) {
    return R"({"Config":{"Version":"1.8.7"},"DebugConfig":{"HTTPMaxConnsPerClient":)" +
           std::to_string(limit) + "}}";
  };
  EXPECT_EQ(of_agent(with(100), "connections"), Severity::kWarning);
  EXPECT_EQ(of_agent(with(200), "connections"), Severity::kOk);
  EXPECT_EQ(of_agent(with(0), "connections"), Severity::kOk);
}

TEST(ConsulDoctorTest, TheNumberOfServersIsJudged) {
  const auto of = [](const std::string& peers) {
    std::vector<Finding> findings;
    judge_peers(peers, findings);
    return findings.at(0).severity;
  };
  EXPECT_EQ(of(R"(["a:1"])"), Severity::kWarning);
  EXPECT_EQ(of(R"(["a:1","b:1"])"), Severity::kWarning);
  EXPECT_EQ(of(R"(["a:1","b:1","c:1"])"), Severity::kOk);
}

}  // namespace
}  // namespace holdfast::stores::consul
