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

TEST(ConsulDoctorTest, WhatServersSurviveIsWhatTheyHaveShown) {
  const auto behind = [](const std::string& self, const std::string& peers) {
    return servers_behind({.status = self.empty() ? 403 : 200, .body = self},
                          {.status = peers.empty() ? 403 : 200, .body = peers});
  };
  const std::string one = R"(["a:1"])";
  const std::string three = R"(["a:1","b:1","c:1"])";
  const std::string server =
      R"({"Config":{"Server":true},"DebugConfig":{"DevMode":false,"DataDir":"/var/lib/consul"}})";
  EXPECT_TRUE(behind(server, one).survive_restart);
  EXPECT_FALSE(behind(server, one).survive_failover);
  EXPECT_TRUE(behind("", three).survive_failover);
  EXPECT_FALSE(behind("", one).survive_restart);
  EXPECT_FALSE(behind("", "").survive_failover);
  const char* const forgetful[] = {
      R"({"Config":{"Server":true},"DebugConfig":{"DevMode":true,"DataDir":"/x"}})",
      R"({"Config":{"Server":true},"DebugConfig":{"DevMode":false,"DataDir":""}})",
      R"({"Config":{"Server":false},"DebugConfig":{"DevMode":false,"DataDir":"/x"}})",
      R"({"Config":3})", "rubbish"};
  for (const char* const self : forgetful) EXPECT_FALSE(behind(self, one).survive_restart) << self;
}

}  // namespace
}  // namespace holdfast::stores::consul
