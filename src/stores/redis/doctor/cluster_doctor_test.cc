#include "src/stores/redis/doctor/cluster_doctor.h"

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast::stores::redis {
namespace {

using Settings = std::map<std::string, std::string>;

constexpr char kGoodInfo[] =
    "redis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\nrole:master\r\n"
    "connected_slaves:1\r\ncluster_enabled:1\r\n";
const Settings kGood = {
    {"maxmemory-policy", "noeviction"},      {"appendfsync", "always"},
    {"min-replicas-to-write", "1"},          {"min-replicas-max-lag", "2"},
    {"cluster-require-full-coverage", "no"}, {"cluster-allow-reads-when-down", "no"}};

struct FakeNode {
  std::string info = kGoodInfo;
  Settings settings = kGood;
  std::string state = "ok";
  bool away = false;
};

ClusterNodeAccess access_to(const FakeNode& node, const std::string& address) {
  return {address, [node](const std::vector<std::string_view>& words, base::BootInstant,
                          const port::Done<Reply>& done) {
            if (node.away) return done(Error(Errc::kUnavailable, "away"));
            Reply reply;
            reply.kind = Reply::Kind::kText;
            if (words.front() == "INFO") reply.text = node.info;
            if (words.front() == "CLUSTER") {
              reply.text = "cluster_state:" + node.state + "\r\ncluster_slots_ok:7\r\n";
            }
            if (words.front() == "CONFIG") {
              reply.kind = Reply::Kind::kArray;
              for (const auto& [name, value] : node.settings) {
                reply.items.push_back({Reply::Kind::kText, 0, name, {}});
                reply.items.push_back({Reply::Kind::kText, 0, value, {}});
              }
            }
            done(reply);
          }};
}

Result<std::vector<Finding>> examined(const std::vector<FakeNode>& nodes) {
  ClusterAccess access;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    access.nodes.push_back(access_to(nodes[i], "h" + std::to_string(i) + ":1"));
  }
  access.try_lock = [](base::BootInstant, const port::Done<void>& done) { done({}); };
  access.subscribe = access.try_lock;
  Result<std::vector<Finding>> findings = Error(Errc::kUnavailable, "never answered");
  examine_cluster(access, base::BootInstant(),
                  [&](Result<std::vector<Finding>> told) { findings = std::move(told); });
  return findings;
}

std::string doctor_says(const std::vector<FakeNode>& nodes, const std::string& topic,
                        Severity least = Severity::kWarning) {
  const auto findings = examined(nodes);
  if (!findings) return findings.error().message();
  std::string text;
  for (const Finding& each : *findings) {
    if (each.topic == topic && each.severity >= least) text += each.what + "\n";
  }
  return text;
}

FakeNode with(const std::string& name, const std::string& value) {
  FakeNode node;
  node.settings[name] = value;
  return node;
}

TEST(RedisClusterDoctorTest, OnlyTheLossByAsynchronousReplicationIsLeftOfAWellKeptCluster) {
  const auto findings = examined({FakeNode(), FakeNode(), FakeNode()});
  ASSERT_TRUE(findings) << findings.error().message();
  for (const Finding& each : *findings) {
    const bool expected = each.topic == "replicas" || each.topic == "clock rate";
    EXPECT_TRUE(expected || each.severity == Severity::kOk) << each.topic << ": " << each.what;
  }
}

TEST(RedisClusterDoctorTest, EveryNodesSettingsAreJudged) {
  const auto names_only_the_last = [](const std::string& text) {
    return text.starts_with("1 of 3 nodes (h2:1): ");
  };
  for (const auto& [topic, name, value] :
       {std::tuple{"eviction", "maxmemory-policy", "allkeys-lru"},
        std::tuple{"persistence", "appendfsync", "everysec"},
        std::tuple{"min-replicas", "min-replicas-to-write", "0"},
        std::tuple{"coverage", "cluster-require-full-coverage", "yes"},
        std::tuple{"reads", "cluster-allow-reads-when-down", "yes"}}) {
    const std::string told = doctor_says({FakeNode(), FakeNode(), with(name, value)}, topic);
    EXPECT_NE(told.find(value), std::string::npos) << topic << ": " << told;
    EXPECT_TRUE(names_only_the_last(told)) << told;
  }
}

TEST(RedisClusterDoctorTest, ADeadNodeAndAClusterThatDoesNotServeAreProblems) {
  FakeNode dead;
  dead.away = true;
  EXPECT_EQ(doctor_says({FakeNode(), dead, FakeNode()}, "node", Severity::kProblem),
            "h1:1 does not answer: away\n");
  const auto none = examined({dead, dead});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), Errc::kUnavailable);
  FakeNode failed;
  failed.state = "fail";
  const std::string told = doctor_says({FakeNode(), failed}, "cluster", Severity::kProblem);
  EXPECT_NE(told.find("7 of 16384"), std::string::npos) << told;
}

TEST(RedisClusterDoctorTest, TooFewPrimariesElectNobody) {
  EXPECT_NE(doctor_says({FakeNode(), FakeNode()}, "primaries"), "");
  EXPECT_EQ(doctor_says({FakeNode(), FakeNode(), FakeNode()}, "primaries"), "");
}

}  // namespace
}  // namespace holdfast::stores::redis
