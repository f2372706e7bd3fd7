// A hybrid store of a real Redis and a real etcd: what its filter does to it, and what it takes off
// its arbiter.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "holdfast/mutex.h"
#include "tests/faults/crowd.h"
#include "tests/support/etcd_server.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/redis_server.h"
#include "tests/support/url_text.h"

namespace holdfast::testing {
namespace {

using namespace std::chrono_literals;

#define HOLDFAST_NEEDS_BOTH() \
  HOLDFAST_NEEDS_ETCD();      \
  HOLDFAST_NEEDS_REDIS()

class Servers {
 public:
  std::string arbiter_url() const { return etcd.url("/hybrid?session=6s"); }
  std::string url(const std::string& options = {}) const {
    return url(options, redis.url(), arbiter_url());
  }
  std::string url(const std::string& options, const std::string& filter) const {
    return url(options, filter, arbiter_url());
  }
  static std::string url(const std::string& options, const std::string& filter,
                         const std::string& arbiter) {
    return "hybrid:?filter=" + support::percent_encoded(filter) +
           "&arbiter=" + support::percent_encoded(arbiter) + options;
  }
  // The clients' requests; keepalives and the test's own questions are not among them.
  double requests() const {
    return etcd.metric("grpc_server_msg_received_total", "etcdserverpb.KV") +
           etcd.metric("grpc_server_msg_received_total", "etcdserverpb.Watch");
  }

  support::RedisServer redis;
  support::EtcdCluster etcd;
};

Client connect(const std::string& url) { return connect_with_ttl(url, 6s); }

constexpr Crowd::Terms kTerms{.ttl = 6s, .wait = 20s, .may_fail = false};
constexpr std::size_t kCrowd = 6;

TEST(HybridFaultsTest, AFilterThatIsFlushedAllTheTimeChangesNoGrant) {
  HOLDFAST_NEEDS_BOTH();
  Servers servers;
  Crowd crowd(servers.url(), kCrowd, kTerms);
  for (int i = 0; i < 30; ++i) {
    static_cast<void>(servers.redis.command({"FLUSHALL"}));
    crowd.await_grants(3);
  }
}

// The crowd goes on while the filter is away, and again when it is back, three times. Each member
// begins several acquires meanwhile.
template <typename Away, typename Back>
void expect_grants_without_the_filter(Away away, Back back) {
  Servers servers;
  Crowd crowd(servers.url(), kCrowd, kTerms);
  for (int i = 0; i < 3; ++i) {
    away(servers.redis);
    crowd.await_grants(30);
    back(servers.redis);
    crowd.await_grants(30);
  }
}

TEST(HybridFaultsTest, AFilterThatDiesAndComesBackEmptyChangesNoGrant) {
  HOLDFAST_NEEDS_BOTH();
  expect_grants_without_the_filter([](auto& filter) { filter.kill9(); },
                                   [](auto& filter) { filter.start(); });
}

TEST(HybridFaultsTest, AFilterThatStandsStillChangesNoGrant) {
  HOLDFAST_NEEDS_BOTH();
  expect_grants_without_the_filter([](auto& filter) { filter.pause(); },
                                   [](auto& filter) { filter.resume(); });
}

// Now below its time limit, now above it.
TEST(HybridFaultsTest, ASlowFilterChangesNoGrant) {
  HOLDFAST_NEEDS_BOTH();
  Servers servers;
  support::FaultProxy way({.server_port = servers.redis.port()});
  Crowd crowd(servers.url({}, servers.redis.url({.port = way.port()})), kCrowd, kTerms);
  for (const auto delay : {100ms, 400ms, 200ms}) {
    const int slow = way.add({.kind = support::Fault::Kind::kDelay, .delay = delay});
    crowd.await_grants(8);
    way.remove(slow);
  }
  crowd.await_grants(10);
}

// Each client has a filter of its own, which lets it pass every time.
TEST(HybridFaultsTest, FiltersThatLetEverybodyPassChangeNoGrant) {
  HOLDFAST_NEEDS_BOTH();
  Servers servers;
  std::vector<std::string> urls;
  for (std::size_t database = 0; database < kCrowd; ++database) {
    urls.push_back(servers.url({}, servers.redis.url() + "/" + std::to_string(database)));
  }
  Crowd crowd(urls, kTerms);
  crowd.await_grants(60);
}

// It reaches the filter and not the arbiter. Its places at the filter delay the others and no more.
TEST(HybridFaultsTest, AClientWithoutTheArbiterStopsNobody) {
  HOLDFAST_NEEDS_BOTH();
  Servers servers;
  support::FaultProxy way({.server_port = servers.etcd.port()});
  const std::string cut_off = servers.url(
      {}, servers.redis.url(),
      "etcd://127.0.0.1:" + std::to_string(way.port()) + "/hybrid?session=6s");
  const Client alone = connect(cut_off);
  ASSERT_TRUE(alone.mutex("orders").acquire({.wait = 20s}));
  Crowd crowd(servers.url("&patience=1s"), 3, kTerms);
  crowd.await_grants(10);
  way.add({.kind = support::Fault::Kind::kBlackhole});
  const auto refused = alone.mutex("orders").acquire({.wait = 2s});
  EXPECT_FALSE(refused);
  crowd.await_grants(10);
}

TEST(HybridFaultsTest, AHolderOutlivesItsFilterAndAClientOpensWithoutOne) {
  HOLDFAST_NEEDS_BOTH();
  Servers servers;
  const Client client = connect(servers.url());
  auto held = client.mutex("held").acquire();
  ASSERT_TRUE(held) << held.error().message();
  servers.redis.kill9();
  const Client late = connect(servers.url());
  auto another = late.mutex("another").acquire({.wait = 10s});
  ASSERT_TRUE(another) << another.error().message();
  EXPECT_FALSE(*late.mutex("held").try_acquire());
  EXPECT_TRUE(held->renew());
  const auto report = late.doctor();
  ASSERT_TRUE(report) << report.error().message();
  bool told = false;
  for (const Finding& each : report->findings) told = told || each.topic == "filter";
  EXPECT_TRUE(told) << "the doctor says that the filter is away";
  servers.redis.start();
  EXPECT_TRUE(held->release());
  auto next = late.mutex("held").acquire({.wait = 10s});
  EXPECT_TRUE(next) << next.error().message();
}

// 200 contenders that want one lock, and wait for a moment only, as a web server's requests do.
double requests_at_the_arbiter(Servers& servers, const std::string& url, int& grants) {
  constexpr int kClients = 4;
  constexpr int kContenders = 200;
  std::vector<Client> clients;
  for (int i = 0; i < kClients; ++i) clients.push_back(connect(url));
  auto held = clients[0].mutex("hot").acquire();
  EXPECT_TRUE(held);
  const double before = servers.requests();
  std::atomic<int> got{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kContenders; ++i) {
    threads.emplace_back([&, i] {
      const auto lease =
          clients[static_cast<std::size_t>(i % kClients)].mutex("hot").acquire({.wait = 1500ms});
      if (!lease) {
        EXPECT_EQ(lease.error().code(), Errc::kTimedOut) << lease.error().message();
        return;
      }
      ++got;
      std::this_thread::sleep_for(100ms);
    });
  }
  std::this_thread::sleep_for(500ms);
  EXPECT_TRUE(held->release());
  for (auto& thread : threads) thread.join();
  grants = got;
  return servers.requests() - before;
}

TEST(HybridFaultsTest, TwoHundredContendersAskTheArbiterATenthAsOften) {
  HOLDFAST_NEEDS_BOTH();
  Servers servers;
  int grants = 0;
  const double direct = requests_at_the_arbiter(servers, servers.arbiter_url(), grants);
  RecordProperty("direct_grants", grants);
  EXPECT_GT(grants, 0);
  const double filtered = requests_at_the_arbiter(servers, servers.url(), grants);
  RecordProperty("hybrid_grants", grants);
  EXPECT_GT(grants, 0);
  RecordProperty("direct_requests", static_cast<int>(direct));
  RecordProperty("hybrid_requests", static_cast<int>(filtered));
  std::printf("requests at the arbiter: %.0f, through a filter %.0f\n", direct, filtered);
  EXPECT_LE(filtered * 10, direct);
}

// The same for those that never wait: each client asks the arbiter once in a while.
TEST(HybridFaultsTest, TriesAskTheArbiterATenthAsOften) {
  HOLDFAST_NEEDS_BOTH();
  Servers servers;
  const auto tries = [&](const std::string& url) {
    std::vector<Client> clients;
    for (int i = 0; i < 4; ++i) clients.push_back(connect(url));
    const auto held = clients[0].mutex("hot").acquire();
    EXPECT_TRUE(held);
    const double before = servers.requests();
    for (int i = 0; i < 200; ++i) {
      const auto tried = clients[static_cast<std::size_t>(i % 4)].mutex("hot").try_acquire();
      EXPECT_TRUE(tried && !*tried);
    }
    return servers.requests() - before;
  };
  const double direct = tries(servers.arbiter_url());
  const double filtered = tries(servers.url());
  std::printf("requests at the arbiter: %.0f, through a filter %.0f\n", direct, filtered);
  EXPECT_LE(filtered * 10, direct);
}

}  // namespace
}  // namespace holdfast::testing
