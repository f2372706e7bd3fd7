#include "src/stores/memcached/doctor.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace holdfast::stores::memcached {
namespace {

constexpr std::string_view kStats =
    "STAT uptime 5000\r\nSTAT version 1.6.18\r\nSTAT bytes 2097152\r\n"
    "STAT limit_maxbytes 67108864\r\nSTAT evictions 0\r\nEND\r\n";
constexpr std::string_view kSettings =
    "STAT evictions on\r\nSTAT item_size_max 1048576\r\nSTAT cas_enabled yes\r\nEND\r\n";

std::string changed(std::string_view text, std::string_view from, std::string_view to) {
  std::string result(text);
  const std::size_t at = result.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return result.replace(at, from.size(), to);
}

const Finding* find(const std::vector<Finding>& findings, std::string_view topic) {
  const auto found = std::find_if(findings.begin(), findings.end(),
                                  [&](const Finding& each) { return each.topic == topic; });
  return found == findings.end() ? nullptr : &*found;
}

Severity severity(const std::vector<Finding>& findings, std::string_view topic) {
  const Finding* const finding = find(findings, topic);
  EXPECT_NE(finding, nullptr) << topic;
  return finding != nullptr ? finding->severity : Severity::kProblem;
}

TEST(MemcachedDoctorTest, AServerAsItShouldBeIsWarnedOfItsNatureOnly) {
  const auto findings = findings_of(kStats, kSettings);
  for (const Finding& each : findings) {
    EXPECT_EQ(each.severity,
              each.topic == "memory only" ? Severity::kWarning : Severity::kOk) << each.topic;
  }
  EXPECT_NE(find(findings, "server")->what.find("1.6.18"), std::string::npos);
  EXPECT_NE(find(findings, "evictions")->what.find("2 MiB of 64 MiB"), std::string::npos);
}

TEST(MemcachedDoctorTest, WhatLosesLocksIsFound) {
  EXPECT_EQ(severity(findings_of(changed(kStats, "evictions 0", "evictions 3"), kSettings),
                     "evictions"),
            Severity::kWarning);
  EXPECT_EQ(severity(findings_of(kStats, changed(kSettings, "evictions on", "evictions off")),
                     "evictions"),
            Severity::kWarning);
  EXPECT_EQ(severity(findings_of(changed(kStats, "uptime 5000", "uptime 20"), kSettings), "uptime"),
            Severity::kWarning);
  EXPECT_EQ(severity(findings_of(kStats, changed(kSettings, "1048576", "1024")), "item size"),
            Severity::kProblem);
}

TEST(MemcachedDoctorTest, AServerThatCannotBeUsedIsRefused) {
  const Reply settings{Reply::Kind::kText, 0, std::string(kSettings)};
  const auto check = [&](const std::string& version) {
    return check_server({Reply::Kind::kText, 0, version}, settings, "memcached://a:1");
  };
  EXPECT_TRUE(check("1.6.18"));
  EXPECT_TRUE(check("1.7.0"));
  EXPECT_TRUE(check("2.0.0-rc1"));
  for (const char* old : {"1.6.9", "1.5.22", "", "what"}) {
    const auto answer = check(old);
    ASSERT_FALSE(answer) << old;
    EXPECT_EQ(answer.error().code(), Errc::kVersionMismatch);
  }
  const Reply version{Reply::Kind::kText, 0, "1.6.18"};
  const auto without = check_server(
      version, {Reply::Kind::kText, 0, changed(kSettings, "cas_enabled yes", "cas_enabled no")},
      "memcached://a:1");
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().code(), Errc::kInvalidArgument);
  const auto login = check_server(
      {Reply::Kind::kRefused, 0, "CLIENT_ERROR unauthenticated"}, settings, "memcached://a:1");
  ASSERT_FALSE(login);
  EXPECT_EQ(login.error().code(), Errc::kPermissionDenied);
}

}  // namespace
}  // namespace holdfast::stores::memcached
