#include "src/stores/redis/sentinel/sentinel_doctor.h"

#include <algorithm>
#include <optional>

#include <gtest/gtest.h>

namespace holdfast::stores::redis {
namespace {

// Sentinels that know each other and agree.
SentinelReports group(long sentinels, long quorum) {
  SentinelReports reports;
  for (long i = 0; i < sentinels; ++i) {
    SentinelReport& each = reports.emplace_back();
    each.where = "the Sentinel s" + std::to_string(i);
    each.host = "10.0.0.1";
    each.port = "6379";
    each.quorum = quorum;
    each.others = sentinels - 1;
    each.replicas = 2;
    each.down_after_ms = 5000;
  }
  return reports;
}

std::optional<Severity> judged(const SentinelReports& reports, std::string_view topic) {
  port::Findings findings;
  judge_sentinels(reports, findings);
  std::optional<Severity> worst;
  for (const Finding& each : findings) {
    if (each.topic == topic) worst = std::max(worst.value_or(Severity::kOk), each.severity);
  }
  return worst;
}

TEST(SentinelDoctorTest, TheQuorumIsTheMajority) {
  const struct {
    long sentinels, quorum;
    Severity severity;
  } cases[] = {{3, 2, Severity::kOk},      {5, 3, Severity::kOk},      {4, 3, Severity::kOk},
               {3, 1, Severity::kWarning}, {5, 2, Severity::kWarning}, {3, 3, Severity::kWarning},
               {5, 4, Severity::kWarning}, {3, 4, Severity::kProblem}, {1, 1, Severity::kOk},
               {2, 2, Severity::kOk}};
  for (const auto& each : cases) {
    EXPECT_EQ(judged(group(each.sentinels, each.quorum), "quorum"), each.severity)
        << each.quorum << " of " << each.sentinels;
  }
}

TEST(SentinelDoctorTest, FewerThanThreeAreTooFew) {
  EXPECT_EQ(judged(group(1, 1), "sentinels"), Severity::kWarning);
  EXPECT_EQ(judged(group(2, 2), "sentinels"), Severity::kWarning);
  EXPECT_EQ(judged(group(3, 2), "sentinels"), Severity::kOk);
}

TEST(SentinelDoctorTest, ASilentSentinelIsToldAndTheOthersAreJudged) {
  SentinelReports reports = group(3, 2);
  reports[1].silent = "connection refused";
  EXPECT_EQ(judged(reports, "sentinel"), Severity::kWarning);
  EXPECT_EQ(judged(reports, "quorum"), Severity::kOk);
  for (SentinelReport& each : reports) each.silent = "connection refused";
  EXPECT_EQ(judged(reports, "quorum"), std::nullopt);
}

TEST(SentinelDoctorTest, AQuestionThatMayNotBeAskedIsNoProblem) {
  SentinelReports reports = group(3, 2);
  reports[0].unasked = "NOPERM";
  EXPECT_EQ(judged(reports, "fail-over"), Severity::kWarning);
  reports[2].cannot = "NOQUORUM 1 usable Sentinels";
  EXPECT_EQ(judged(reports, "fail-over"), Severity::kProblem);
}

TEST(SentinelDoctorTest, DisagreementIsTold) {
  EXPECT_EQ(judged(group(3, 2), "agreement"), std::nullopt);
  SentinelReports reports = group(3, 2);
  reports[2].epoch = 1;
  EXPECT_EQ(judged(reports, "agreement"), Severity::kWarning);
  reports = group(3, 2);
  reports[0].down_after_ms = 6000;
  EXPECT_EQ(judged(reports, "agreement"), Severity::kWarning);
  reports = group(3, 2);
  for (SentinelReport& each : reports) each.others = 0;
  EXPECT_EQ(judged(reports, "agreement"), Severity::kProblem);
}

}  // namespace
}  // namespace holdfast::stores::redis
