#include "src/stores/redis/doctor/doctor.h"

#include <algorithm>
#include <map>
#include <string>

#include <gtest/gtest.h>

namespace holdfast::stores::redis {
namespace {

// A server that refuses these commands in its own words, or with this code.
std::vector<Finding> findings_without(const std::map<std::string, Errc, std::less<>>& refused) {
  DoctorAccess access;
  access.read = [&](const std::vector<std::string_view>& words, base::BootInstant,
                    const port::Done<Reply>& done) {
    if (const auto found = refused.find(words.front()); found != refused.end()) {
      return done(Error(found->second, "refused"));
    }
    Reply reply;
    reply.kind = Reply::Kind::kText;
    if (words.front() == "INFO") {
      reply.text =
          "redis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\naof_enabled:0\r\n"
          "role:master\r\nconnected_slaves:0\r\n";
    } else if (words.front() == "CONFIG") {
      reply.kind = Reply::Kind::kArray;
      reply.items = {{Reply::Kind::kText, 0, "maxmemory-policy", {}},
                     {Reply::Kind::kText, 0, "noeviction", {}}};
    }
    done(reply);
  };
  access.try_lock = [](base::BootInstant, const port::Done<void>& done) { done({}); };
  access.subscribe = access.try_lock;
  std::vector<Finding> findings;
  examine(access, RedisAddress(), base::BootInstant(), [&](Result<std::vector<Finding>> told) {
    ASSERT_TRUE(told) << told.error().message();
    findings = *std::move(told);
  });
  return findings;
}

std::string told_of(const std::vector<Finding>& findings, std::string_view topic) {
  const auto found = std::find_if(findings.begin(), findings.end(),
                                  [&](const Finding& each) { return each.topic == topic; });
  return found == findings.end() ? "" : found->what;
}

bool healthy(const std::vector<Finding>& findings) {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& each) { return each.severity == Severity::kProblem; });
}

TEST(RedisDoctorUnitTest, WithoutInfoOrConfigTheTrialStillSaysWhetherLocksWork) {
  for (const Errc code : {Errc::kUnsupported, Errc::kPermissionDenied}) {
    const auto no_info = findings_without({{"INFO", code}});
    EXPECT_NE(told_of(no_info, "rights"), "");
    EXPECT_TRUE(healthy(no_info)) << "CONFIG says that nothing is evicted";
    const auto no_config = findings_without({{"CONFIG", code}});
    EXPECT_TRUE(healthy(no_config)) << "INFO says that nothing is evicted";
    EXPECT_FALSE(healthy(findings_without({{"INFO", code}, {"CONFIG", code}})));
  }
}

TEST(RedisDoctorUnitTest, ACommandThatTheServerDoesNotHaveIsNotTakenForAMissingRight) {
  const auto renamed =
      findings_without({{"INFO", Errc::kUnsupported}, {"CONFIG", Errc::kUnsupported}});
  for (const char* topic : {"server", "eviction", "configuration"}) {
    EXPECT_NE(told_of(renamed, topic).find("disabled or renamed"), std::string::npos) << topic;
    EXPECT_EQ(told_of(renamed, topic).find("this user may not"), std::string::npos) << topic;
  }
  const auto denied = findings_without({{"INFO", Errc::kPermissionDenied}});
  EXPECT_NE(told_of(denied, "server").find("this user may not ask INFO"), std::string::npos);
}

TEST(RedisDoctorUnitTest, AnInfoThatIsNotAnsweredIsAnError) {
  DoctorAccess access;
  access.read = [](const std::vector<std::string_view>&, base::BootInstant,
                   const port::Done<Reply>& done) { done(Error(Errc::kUnavailable, "away")); };
  std::optional<Errc> code;
  examine(access, RedisAddress(), base::BootInstant(),
          [&](const Result<std::vector<Finding>>& told) { code = told.error().code(); });
  EXPECT_EQ(code, Errc::kUnavailable);
}

}  // namespace
}  // namespace holdfast::stores::redis
