// The doctor's report on a running Redis is checked line by line.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "holdfast/holdfast.h"
#include "tests/support/clock_shift.h"
#include "tests/support/redis_server.h"

namespace holdfast {
namespace {

using support::RedisOptions;
using support::RedisServer;

class RedisDoctorTest : public ::testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_REDIS(); }

  void start(RedisOptions options = {}) { server_ = std::make_unique<RedisServer>(options); }

  std::optional<Finding> finding(const std::string& topic, const std::string& url = {}) {
    auto client = Client::connect(url.empty() ? server_->url() : url);
    if (!client) {
      ADD_FAILURE() << client.error().message();
      return std::nullopt;
    }
    const auto report = client->doctor();
    if (!report) {
      ADD_FAILURE() << report.error().message();
      return std::nullopt;
    }
    const auto found =
        std::find_if(report->findings.begin(), report->findings.end(),
                     [&](const Finding& candidate) { return candidate.topic == topic; });
    if (found == report->findings.end()) return std::nullopt;
    EXPECT_TRUE(found->severity == Severity::kOk || !found->advice.empty()) << found->what;
    return *found;
  }

  void expect(const std::string& topic, Severity severity, const std::string& words) {
    const auto found = finding(topic);
    ASSERT_TRUE(found) << "nothing is said about " << topic;
    EXPECT_EQ(found->severity, severity) << found->what;
    EXPECT_NE(found->what.find(words), std::string::npos) << found->what;
  }

  std::unique_ptr<RedisServer> server_;
};

TEST_F(RedisDoctorTest, AWellConfiguredServerHasNoProblem) {
  start({.appendonly = true, .appendfsync = "always"});
  const auto client = Client::connect(server_->url());
  ASSERT_TRUE(client);
  const auto report = client->doctor();
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_TRUE(report->healthy());
  EXPECT_GE(report->findings.size(), 6U);
  for (const Finding& found : report->findings) {
    if (found.topic == "clock rate") continue;  // About the host's chrony, not the server.
    EXPECT_EQ(found.severity, Severity::kOk) << found.topic << ": " << found.what;
  }
}

TEST_F(RedisDoctorTest, AnEvictingPolicyIsAProblem) {
  start({.maxmemory = "64mb", .maxmemory_policy = "allkeys-lru"});
  expect("eviction", Severity::kProblem, "allkeys-lru");
}

TEST_F(RedisDoctorTest, AnEvictingPolicyWithoutALimitIsAProblemToo) {
  start({.maxmemory_policy = "volatile-ttl"});
  expect("eviction", Severity::kProblem, "volatile-ttl");
}

TEST_F(RedisDoctorTest, MissingPersistenceIsAWarning) {
  start();
  expect("persistence", Severity::kWarning, "no append-only file");
}

TEST_F(RedisDoctorTest, LazySyncsAreAWarning) {
  start({.appendonly = true, .appendfsync = "everysec"});
  expect("persistence", Severity::kWarning, "everysec");
}

TEST_F(RedisDoctorTest, AReplicaIsAWarningAtThePrimary) {
  start();
  const RedisServer replica({.replica_of = server_.get()});
  ASSERT_TRUE(server_->eventually(
      [](RedisServer& server) { return server.info("replication", "connected_slaves") == "1"; }));
  expect("replicas", Severity::kWarning, "1 replica");
  expect("min-replicas", Severity::kWarning, "goes on granting");
}

TEST_F(RedisDoctorTest, AClockThatIsOffIsAWarning) {
  support::ClockShift shift;
  start({.clock_shift_file = shift.path()});
  shift.set(std::chrono::minutes(5));
  expect("clock", Severity::kWarning, "ahead of");
}

TEST_F(RedisDoctorTest, AUserWithoutTheChannelIsToldSo) {
  start({.users = {"holdfast on >pass ~hf1:* +@all"}});
  const auto found = finding("channel", server_->url({.user = "holdfast", .password = "pass"}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->severity, Severity::kProblem) << found->what;
}

TEST_F(RedisDoctorTest, AUserWithoutARightToWriteIsToldSo) {
  start({.users = {"holdfast on >pass ~hf1:* &* +@all -set"}});
  const auto found = finding("rights", server_->url({.user = "holdfast", .password = "pass"}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->severity, Severity::kProblem) << found->what;
}

TEST_F(RedisDoctorTest, RightsThatEndAtTheNamespaceSuffice) {
  start({.users = {"holdfast on >pass ~hf1:{billing/* &hf1:* +@all"}});
  const auto url =
      server_->url({.user = "holdfast", .password = "pass", .query = {{"ns", "billing"}}});
  const auto found = finding("rights", url);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->severity, Severity::kOk) << found->what;
}

TEST_F(RedisDoctorTest, ARightThatOnlyAQueueNeedsIsMissed) {
  start({.users = {"holdfast on >pass ~hf1:* &* +@all -zrank"}});
  const auto found = finding("rights", server_->url({.user = "holdfast", .password = "pass"}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->severity, Severity::kProblem) << found->what;
}

TEST_F(RedisDoctorTest, WhatCannotBeSeenIsNotTakenForGood) {
  start({.maxmemory = "64mb",
         .maxmemory_policy = "allkeys-lru",
         .users = {"holdfast on >pass ~hf1:* &* +@all -info -config"}});
  const auto found = finding("eviction", server_->url({.user = "holdfast", .password = "pass"}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->severity, Severity::kProblem) << found->what;
}

TEST_F(RedisDoctorTest, TheTrialLeavesNothingBehind) {
  start();
  ASSERT_TRUE(finding("rights"));
  EXPECT_EQ(server_->must({"DBSIZE"}).integer, 0);
}

TEST_F(RedisDoctorTest, ADamagedLockHidesNoOther) {
  start();
  auto client = Client::connect(server_->url());
  ASSERT_TRUE(client);
  const auto lease = client->mutex("good").acquire();
  ASSERT_TRUE(lease) << lease.error().message();
  server_->must({"SET", "hf1:{bad}", "1 held garbage"});
  server_->must({"SET", "hf1:{worse}", "1 free garbage"});
  const auto locks = client->list();
  ASSERT_TRUE(locks) << locks.error().message();
  ASSERT_EQ(locks->size(), 1U);
  EXPECT_EQ(locks->front().name, "good");
  const auto tried = client->mutex("worse").try_acquire();
  ASSERT_FALSE(tried);
  EXPECT_EQ(tried.error().code(), Errc::kCorruptState) << tried.error().message();
}

}  // namespace
}  // namespace holdfast
