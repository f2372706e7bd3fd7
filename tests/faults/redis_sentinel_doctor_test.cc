// The doctor on Sentinels: each line is provoked on running servers.
#include <algorithm>

#include "tests/faults/redis_harness.h"
#include "tests/support/eventually.h"
#include "tests/support/redis_sentinels.h"

namespace holdfast::faults {
namespace {

using support::RedisSentinels;

class RedisSentinelDoctorTest : public RedisFaults {
 protected:
  static std::vector<Finding> findings(const std::string& url) {
    const auto client = Client::connect(url);
    if (!client) throw std::runtime_error(client.error().message());
    auto report = client->doctor();
    if (!report) throw std::runtime_error(report.error().message());
    return std::move(report->findings);
  }
  static bool has(const std::vector<Finding>& all, const char* topic, Severity severity,
                  const std::string& words) {
    return std::any_of(all.begin(), all.end(), [&](const Finding& each) {
      return each.topic == topic && each.severity == severity &&
             each.what.find(words) != std::string::npos &&
             (severity == Severity::kOk || !each.advice.empty());
    });
  }
  static void expect(const std::string& url, const char* topic, Severity severity,
                     const std::string& words) {
    const std::vector<Finding> all = findings(url);
    std::string told;
    for (const Finding& each : all) told += each.topic + ": " + each.what + "\n";
    EXPECT_TRUE(has(all, topic, severity, words)) << topic << ": " << words << "\n" << told;
  }
  static void set(RedisSentinels& redis, std::size_t sentinel, const std::string& name,
                  const std::string& value) {
    const Reply done = redis.sentinel(sentinel).command(
        {"SENTINEL", "SET", RedisSentinels::kName, name, value});
    ASSERT_FALSE(done.is_error()) << done;
  }
  static void set_all(RedisSentinels& redis, const std::string& name, const std::string& value) {
    for (std::size_t i = 0; i < 3; ++i) set(redis, i, name, value);
  }
};

TEST_F(RedisSentinelDoctorTest, TheSentinelsAreJudgedLineByLine) {
  RedisSentinels redis;
  const std::string url = redis.url("connect_timeout=1s");
  expect(url, "sentinels", Severity::kOk, "3 Sentinels");
  expect(url, "quorum", Severity::kOk, "quorum 2 of 3 Sentinels");
  expect(url, "fail-over", Severity::kOk, "can vote");
  const std::string first = "127.0.0.1:" + std::to_string(redis.sentinel(0).port());
  expect("redis+sentinel://" + first + "?primary=mymaster", "sentinels", Severity::kWarning,
         "names 1 of 3 Sentinels");

  expect(url, "down-after", Severity::kWarning, "500 ms: a short stall");
  set_all(redis, "down-after-milliseconds", "30000");
  expect(url, "down-after", Severity::kWarning, "30000 ms: until then no lock");
  set_all(redis, "down-after-milliseconds", "5000");
  expect(url, "down-after", Severity::kOk, "5000 ms");

  set(redis, 0, "quorum", "1");
  expect(url, "quorum", Severity::kWarning, "quorum 1 of 3 Sentinels");
  expect(url, "agreement", Severity::kWarning, "different values of quorum");
  set_all(redis, "quorum", "3");
  expect(url, "quorum", Severity::kWarning, "with 1 Sentinel away");
  set_all(redis, "quorum", "4");
  expect(url, "quorum", Severity::kProblem, "quorum 4 cannot be reached by 3 Sentinels");
  expect(url, "fail-over", Severity::kProblem, "NOQUORUM");
  set_all(redis, "quorum", "2");

  set_all(redis, "down-after-milliseconds", "500");
  redis.sentinel(1).kill9();
  redis.sentinel(2).kill9();
  EXPECT_TRUE(support::eventually([&] {
    const std::vector<Finding> all = findings(url);
    return has(all, "sentinel", Severity::kWarning, "tells nothing about the primary") &&
           has(all, "fail-over", Severity::kProblem, "NOQUORUM 1 usable Sentinels");
  }));
}

TEST_F(RedisSentinelDoctorTest, TheServersAreJudgedByWhatAFailOverCanLose) {
  RedisSentinels redis;
  RedisServer& primary = redis.primary();
  const std::string url = redis.url();
  expect(url, "persistence", Severity::kWarning, "makes its replicas forget");
  primary.config_set("appendonly", "yes");
  primary.config_set("appendfsync", "everysec");
  expect(url, "persistence", Severity::kWarning, "appendfsync everysec");
  primary.config_set("appendfsync", "always");
  expect(url, "persistence", Severity::kOk, "appendfsync always");
  primary.config_set("maxmemory-policy", "allkeys-lru");
  expect(url, "eviction", Severity::kProblem, "allkeys-lru");
  primary.config_set("maxmemory-policy", "noeviction");
  expect(url, "eviction", Severity::kOk, "noeviction");

  expect(url, "min-replicas", Severity::kWarning, "min-replicas-to-write is 0");
  primary.config_set("min-replicas-to-write", "2");
  expect(url, "min-replicas", Severity::kWarning, "2 of 2 replicas");
  primary.config_set("min-replicas-to-write", "1");
  primary.config_set("min-replicas-max-lag", "60");
  expect(url, "min-replicas", Severity::kWarning, "for so many seconds");
  primary.config_set("min-replicas-max-lag", "0");
  expect(url, "min-replicas", Severity::kWarning, "min-replicas-max-lag is 0");
  primary.config_set("min-replicas-max-lag", "2");
  expect(url, "min-replicas", Severity::kOk, "stops granting after 2 s");

  expect(redis.url("replicas=1"), "confirmations", Severity::kWarning,
         "replicas=1 of the URL is below the number of replicas (2)");
  expect(redis.url("replicas=2"), "confirmations", Severity::kOk, "replicas=2");
  expect(redis.url("replicas=3&replicas_timeout=100ms"), "confirmations", Severity::kProblem,
         "no lock can be granted");
  // The Sentinels know that it may come back.
  redis.server(2).kill9();
  EXPECT_TRUE(support::eventually([&] {
    return has(findings(redis.url("replicas=1")), "confirmations", Severity::kWarning,
               "number of replicas (2)");
  }));
}

TEST_F(RedisSentinelDoctorTest, SentinelsThatAreAloneOrStrangersAreTold) {
  RedisSentinels one({.replicas = 0, .sentinels = 1, .quorum = 1});
  expect(one.url(), "sentinels", Severity::kWarning, "one Sentinel");
  expect(one.url(), "promotion", Severity::kProblem, "no replica");
  RedisSentinels other({.replicas = 0, .sentinels = 1, .quorum = 1});
  const std::string both =
      "redis+sentinel://" + one.hosts() + "," + other.hosts() + "?primary=mymaster";
  expect(both, "agreement", Severity::kWarning, "name different primaries");
  expect(both, "agreement", Severity::kProblem, "do not know each other");
}

}  // namespace
}  // namespace holdfast::faults
