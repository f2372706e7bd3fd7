// Faults around real Consul servers, one or three, seen through the public library.

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "holdfast/shared_mutex.h"
#include "src/base/clock.h"
#include "tests/faults/client_side.h"
#include "tests/faults/later_format.h"
#include "tests/support/consul_server.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/loopback.h"
#include "tests/support/tls_files.h"

namespace holdfast::faults {
namespace {

using support::ConsulCluster;
using support::ConsulServer;
using support::Fault;
using support::FaultProxy;

// As docs/stores/consul.md has it.
constexpr char kPolicy[] =
    R"(key_prefix "holdfast/" { policy = "write" } session_prefix "" { policy = "write" } )"
    R"(agent_prefix "" { policy = "read" })";

// It may have to be made up for.
void release_at_best(Lease& lease) { static_cast<void>(lease.release()); }

// Returns the session of the first contender in a lock's folder.
std::string session_of(const ConsulServer& server, const std::string& lock) {
  const std::string body = server.ask("GET", "/v1/kv/holdfast/l/" + lock + "/c/?recurse").body;
  const auto at = body.find("\"Session\":\"");
  if (at == std::string::npos) throw std::runtime_error("no session in " + body);
  return body.substr(at + 11, 36);
}

// That the server has answered, about keys: by its log, without what waits and what keeps a
// session.
std::size_t requests_about_keys(const ConsulServer& server) {
  std::istringstream log(server.log());
  std::size_t count = 0;
  for (std::string line; std::getline(log, line);) {
    const auto has = [&](const char* what) { return line.find(what) != std::string::npos; };
    if (!has("Request finished") || has("index=")) continue;
    if (has("url=/v1/txn") || has("url=/v1/kv/")) ++count;
  }
  return count;
}

// Entries that it has to read again after a restart, before those that come now: meanwhile it has
// no token and no session that is among these, though it leads already.
void grow_log(const ConsulServer& server, int entries) {
  constexpr int kSteps = 64;
  const std::string value(800, 'Y');  // As base64.
  for (int entry = 0; entry < entries; ++entry) {
    std::string steps;
    for (int step = 0; step < kSteps; ++step) {
      steps += std::string(steps.empty() ? "[" : ",") + R"({"KV":{"Verb":"set","Key":"log/)" +
               std::to_string(entry) + "/" + std::to_string(step) + R"(","Value":")" + value +
               "\"}}";
    }
    const auto done = server.ask("PUT", "/v1/txn", steps + "]");
    if (done.status != 200) throw std::runtime_error("the log does not grow: " + done.body);
  }
}

class ConsulFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_CONSUL(); }
};

TEST_F(ConsulFaultsTest, OneServerPromisesNoFailover) {
  const ConsulServer server;
  const Client client = connect(server.url());
  EXPECT_TRUE(client.guarantees().survives_restart);
  EXPECT_FALSE(client.guarantees().survives_failover);
}

// After its restart the lock was gone, and tokens fell from 128 to 22.
TEST_F(ConsulFaultsTest, AnAgentInDevModePromisesNothingBeyondItsProcess) {
  const ConsulServer server({.dev = true});
  const Client client = connect(server.url());
  EXPECT_FALSE(client.guarantees().survives_restart);
  EXPECT_FALSE(client.guarantees().survives_failover);
  const DoctorReport report = client.doctor().value();
  EXPECT_FALSE(report.guarantees.survives_restart);
  EXPECT_TRUE(std::any_of(report.findings.begin(), report.findings.end(), [](const Finding& each) {
    return each.what.find("dev mode") != std::string::npos;
  }));
}

TEST_F(ConsulFaultsTest, WhereNobodyListensConnectingSaysSo) {
  const support::ReservedPort nobody;
  const auto client = Client::connect("consul://127.0.0.1:" + std::to_string(nobody.number()));
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code(), Errc::kUnavailable);
  EXPECT_NE(client.error().message().find("onnection refused"), std::string::npos)
      << client.error().message();
}

TEST_F(ConsulFaultsTest, AKeptLeaseOutlastsItsClientAndARestart) {
  ConsulServer server;
  expect_a_kept_lease_outlasts(
      server.url({{"session", "15s"}}), [&] { server.kill9(); }, [&] { server.start(); });
}

TEST_F(ConsulFaultsTest, AReleasedKeptLeaseIsGoneAtTheServer) {
  const ConsulServer server;
  Client client = connect(server.url({{"session", "15s"}}));
  for (int i = 0; i < 3; ++i) {
    Lease kept = client.mutex("a").acquire({.ttl = 60s, .outlives_client = true}).value();
    expect_released(kept);
  }
  EXPECT_TRUE(eventually([&] {
    const std::string all = server.ask("GET", "/v1/session/list").body;
    return all.find("\"ID\"") != std::string::npos && all.find("\"ID\"") == all.rfind("\"ID\"");
  })) << server.ask("GET", "/v1/session/list").body;
}

TEST_F(ConsulFaultsTest, ALostAnswerToTheTransferLosesNothing) {
  const ConsulServer server;
  FaultProxy proxy({.server_port = server.port()});
  expect_a_lost_transfer_loses_nothing(
      "consul://127.0.0.1:" + std::to_string(proxy.port()) + "?session=20s",
      server.url({{"session", "20s"}}), proxy, R"("unlock")");
}

TEST_F(ConsulFaultsTest, ARestartedServerStillKnowsTheHolder) {
  ConsulServer server;
  Client one = connect(server.url({{"session", "15s"}}));
  Client two = connect(server.url({{"session", "15s"}}));
  Lease lease = hold(one, "a");
  auto waiting = wait_for(two, "a");
  server.kill9();
  EXPECT_FALSE(two.mutex("b").try_acquire());
  server.start();
  EXPECT_TRUE(eventually([&] { return lease.renew().has_value(); }));
  EXPECT_TRUE(lease.held());
  EXPECT_EQ(waiting.wait_for(0s), std::future_status::timeout);
  const Token first = lease.token();
  EXPECT_TRUE(lease.release());
  auto got = waiting.get();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_GT(got->token(), first);
}

TEST_F(ConsulFaultsTest, AWaiterOutlastsAServerThatIsAwayForLongerThanItsSession) {
  ConsulServer server;
  expect_a_waiter_outlasts(
      server.url({{"session", "2s"}}), [&] { server.kill9(); }, [&] { server.start(); });
}

TEST_F(ConsulFaultsTest, AWaiterOutlastsAServerThatDoesNotKnowItsTokenYet) {
  ConsulServer server({.acl = true});
  grow_log(server, /*entries=*/150);
  const std::string token = server.make_token(kPolicy);
  expect_a_waiter_outlasts(
      server.url({{"session", "2s"}, {"token", token}}), [&] { server.kill9(); },
      [&] { server.start(); });
}

// The session is longer than a start of the server takes on a busy machine.
TEST_F(ConsulFaultsTest, AHolderOutlastsAServerThatDoesNotKnowItsSessionYet) {
  ConsulServer server;
  grow_log(server, /*entries=*/400);
  Client client = connect(server.url({{"session", "60s"}}));
  Lease lease = hold(client, "a");
  server.kill9();
  // From then on it is renewed again and again.
  EXPECT_TRUE(eventually([&] { return !lease.renew(); }));
  server.start();
  EXPECT_TRUE(eventually([&] { return lease.renew() || !lease.held(); }));
  EXPECT_TRUE(lease.held());
  expect_released(lease);
}

// The removal expects the contender as it was written last, and its writer knows that.
TEST_F(ConsulFaultsTest, AReleaseIsOneRequestAlsoOfWhatWasWrittenMeanwhile) {
  ConsulServer server({.log_level = "debug"});
  Client client = connect(server.url({{"session", "30s"}}));
  const auto expect_one = [&](Lease& lease) {
    const std::size_t before = requests_about_keys(server);
    EXPECT_TRUE(lease.release());
    EXPECT_EQ(requests_about_keys(server), before + 1);
  };
  EXPECT_TRUE(hold(client, "a").release());
  const std::size_t before = requests_about_keys(server);
  auto tried = client.mutex("a").try_acquire();
  ASSERT_TRUE(tried && *tried);
  // A contender that would not have waited takes back its mark once it has held for a while.
  ASSERT_TRUE(eventually([&] { return requests_about_keys(server) >= before + 2; }));
  ASSERT_TRUE(client.inspect("a"));  // Its answer comes behind the mark's.
  expect_one(**tried);
  SharedMutex mutex = client.shared_mutex("b");
  auto lease = mutex.acquire({.wait = kLong});
  ASSERT_TRUE(lease) << lease.error().message();
  ASSERT_TRUE(mutex.downgrade(*lease));
  expect_one(*lease);
}

TEST_F(ConsulFaultsTest, AHolderWhoseSessionEndsIsToldAndStartsAnew) {
  ConsulServer server;
  Client one = connect(server.url());
  Client two = connect(server.url());
  Lease lease = hold(one, "a");
  const std::string session = session_of(server, "a");
  auto waiting = wait_for(two, "a");
  server.ask("PUT", "/v1/session/destroy/" + session);
  EXPECT_TRUE(fires(lease.lost()));
  EXPECT_FALSE(lease.held());
  auto got = waiting.get();
  ASSERT_TRUE(got) << got.error().message();
  const auto released = lease.release();
  ASSERT_FALSE(released) << "a zombie's release";
  EXPECT_EQ(released.error().code(), Errc::kLost);
  EXPECT_TRUE(got->held());
  ASSERT_TRUE(got->release());
  EXPECT_GT(hold(one, "a").token(), got->token()) << "with a session of its own";
}

TEST_F(ConsulFaultsTest, AWaiterWhoseSessionEndsQueuesAnew) {
  ConsulServer server;
  Client one = connect(server.url());
  Client two = connect(server.url());
  const Lease mark = hold(two, "mark");
  std::optional<Lease> lease = hold(one, "a");
  auto waiting = wait_for(two, "a");
  server.ask("PUT", "/v1/session/destroy/" + session_of(server, "mark"));
  EXPECT_TRUE(fires(mark.lost()));
  lease.reset();
  auto got = waiting.get();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_TRUE(got->held());
}

TEST_F(ConsulFaultsTest, NobodyIsLetInBesideARecordThatCannotBeRead) {
  ConsulServer server;
  const RecordSite site{[&] { return connect(server.url()); },
                        [&](const std::string& lock, const std::string& text) {
                          const std::string key = "/v1/kv/holdfast/l/" + lock + "/record";
                          if (text.empty()) server.ask("DELETE", key);
                          if (!text.empty()) server.ask("PUT", key, text);
                        }};
  expect_unreadable_records_refused(site);
  expect_a_waiter_refused(site);
  expect_others_listed(site, server.url());
  expect_others_watched(site);
}

TEST_F(ConsulFaultsTest, AContenderThatCannotBeReadKeepsItsPlaceAndIsNamed) {
  ConsulServer server;
  const std::string made = server.ask("PUT", "/v1/session/create", "{}").body;
  const std::string session = made.substr(made.find(':') + 2, 36);
  expect_unreadable_contenders_shown(
      {server.url(),
       [&](const std::string& lock, const std::string& name, const std::string& text) {
         const std::string key = "/v1/kv/holdfast/l/" + lock + "/c/" + name;
         EXPECT_EQ(server.ask("PUT", key + "?acquire=" + session, text).body, "true");
         return [&server, key] { server.ask("DELETE", key); };
       }});
}

TEST_F(ConsulFaultsTest, ATryOnAStoppedServerEndsInTime) {
  ConsulServer server;
  expect_tries_in_time(
      server.url(), [&] { server.pause(); }, [&] { server.resume(); });
}

TEST_F(ConsulFaultsTest, AWrongTokenAndAMissingRightAreToldApartFromAbsence) {
  ConsulServer server({.acl = true});
  const std::string none = server.make_token("key_prefix \"other/\" { policy = \"write\" }");
  for (const std::string& token : {std::string("11111111-2222-3333-4444-555555555555"), none}) {
    Client client = connect(server.url({{"token", token}}));
    const auto refused = client.mutex("a").try_acquire();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Errc::kPermissionDenied) << refused.error().message();
    EXPECT_EQ(refused.error().message().find(token), std::string::npos);
  }
}

TEST_F(ConsulFaultsTest, TheDocumentedPolicySuffices) {
  ConsulServer server({.acl = true});
  const std::string token = server.make_token(kPolicy);
  Client client = connect(server.url({{"token", token}}));
  Lease lease = hold(client, "a");
  EXPECT_TRUE(lease.renew());
  EXPECT_EQ(client.list("").value().size(), 1U);
  EXPECT_TRUE(lease.release());
  const auto report = client.doctor();
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_TRUE(report->healthy());
}

TEST_F(ConsulFaultsTest, CertificatesAreChecked) {
  ConsulServer server({.tls = true});
  Lease lease = hold(connect(server.tls_url()), "a");
  EXPECT_TRUE(lease.held());
  for (const auto& [option, value] :
       {std::pair<std::string, std::string>{"tls_ca", support::tls_files().foreign_ca},
        {"tls_name", "elsewhere.invalid"}}) {
    Client client = connect(server.tls_url({{option, value}}));
    const auto refused = client.mutex("b").try_acquire();
    ASSERT_FALSE(refused) << option;
    EXPECT_EQ(refused.error().code(), Errc::kPermissionDenied) << refused.error().message();
  }
}

TEST_F(ConsulFaultsTest, AClientShowsItsCertificate) {
  ConsulServer server({.tls = true, .tls_clients = true});
  const auto& own = support::tls_files().client;
  Client client = connect(server.tls_url({{"tls_cert", own.certificate}, {"tls_key", own.key}}));
  EXPECT_TRUE(hold(client, "a").held());
  Client nobody = connect(server.tls_url());
  const auto refused = nobody.mutex("b").try_acquire();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::kPermissionDenied) << refused.error().message();
}

// --- Between client and server.

class ConsulLinkFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_CONSUL();
    server_ = std::make_unique<ConsulServer>();
    proxy_ = std::make_unique<FaultProxy>(support::ProxyOptions{.server_port = server_->port()});
  }
  std::string through_proxy(const std::string& session) const {
    return server_->url({{"session", session}}, proxy_->port());
  }

  std::unique_ptr<ConsulServer> server_;
  std::unique_ptr<FaultProxy> proxy_;
};

TEST_F(ConsulLinkFaultsTest, AHolderThatIsCutOffIsToldBeforeAnotherHolds) {
  Client one = connect(through_proxy("2s"));
  Client two = connect(server_->url({{"session", "2s"}}));
  Lease lease = hold(one, "a");
  auto waiting = wait_for(two, "a");
  std::atomic<bool> told = false;
  const std::stop_callback note(lease.lost(), [&] { told = true; });
  proxy_->add({.kind = Fault::Kind::kBlackhole});
  proxy_->add({.kind = Fault::Kind::kBlackhole, .direction = support::Direction::kToClient});
  auto got = waiting.get();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_FALSE(lease.held());
  EXPECT_TRUE(eventually([&] { return told.load(); }));
  EXPECT_GT(got->token(), lease.token());
}

TEST_F(ConsulLinkFaultsTest, ALostReplyToTheGrantLeavesNothingBehind) {
  Client one = connect(through_proxy("30s"));
  Client two = connect(server_->url());
  { const Lease warm = hold(one, "warm"); }
  const int fault = proxy_->add({.kind = Fault::Kind::kDropReplies, .containing = "l/a/c/"});
  auto tried = one.mutex("a").try_acquire();
  ASSERT_TRUE(proxy_->wait_for_hits(fault));
  proxy_->remove(fault);
  if (tried && *tried) {
    EXPECT_TRUE((**tried).held());
    EXPECT_TRUE((**tried).release());
  }
  const auto got = two.mutex("a").acquire({.wait = 20s});
  EXPECT_TRUE(got) << got.error().message();
}

TEST_F(ConsulLinkFaultsTest, ALostReplyToTheReleaseIsMadeUpFor) {
  Client one = connect(through_proxy("30s"));
  Client two = connect(server_->url());
  Lease lease = hold(one, "a");
  auto waiting = wait_for(two, "a");
  const int fault = proxy_->add({.kind = Fault::Kind::kDropReplies, .containing = "l/a/c/"});
  const auto released = lease.release();
  EXPECT_TRUE(released || released.error().code() == Errc::kOutcomeUnknown ||
              released.error().code() == Errc::kUnavailable)
      << released.error().message();
  proxy_->remove(fault);
  auto got = waiting.get();
  EXPECT_TRUE(got) << got.error().message();
}

// --- A cluster of three.

// A session of 15 s, and two elections of 3 s each at most.
constexpr milliseconds kLeaseAndElections = 21s;

class ConsulClusterFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_CONSUL();
    cluster_ = std::make_unique<ConsulCluster>();
  }
  std::unique_ptr<ConsulCluster> cluster_;
};

TEST_F(ConsulClusterFaultsTest, ThreeServersPromiseAFailover) {
  EXPECT_TRUE(connect(cluster_->url()).guarantees().survives_failover);
}

TEST_F(ConsulClusterFaultsTest, AKilledLeaderCostsNoLock) {
  const std::size_t leader = cluster_->leader();
  const auto url =
      cluster_->url({{"session", "15s"}}, {leader, (leader + 1) % 3, (leader + 2) % 3});
  expect_no_lock_lost(
      url, [&] { cluster_->server(leader).kill9(); }, release_at_best, kLeaseAndElections);
}

TEST_F(ConsulClusterFaultsTest, AKilledFollowerCostsNoLock) {
  const std::size_t leader = cluster_->leader();
  const std::size_t follower = (leader + 1) % 3;
  const auto url = cluster_->url({{"session", "15s"}}, {follower, leader, (leader + 2) % 3});
  expect_no_lock_lost(
      url, [&] { cluster_->server(follower).kill9(); }, release_at_best, kLeaseAndElections);
}

TEST_F(ConsulClusterFaultsTest, AStoppedLeaderIsPassedBy) {
  const std::size_t leader = cluster_->leader();
  const auto url =
      cluster_->url({{"session", "15s"}}, {leader, (leader + 1) % 3, (leader + 2) % 3});
  Client one = connect(url);
  Client two = connect(url);
  Lease lease = hold(one, "a");
  auto waiting = wait_for(two, "a");
  cluster_->server(leader).pause();
  const auto stopped = base::BootClock::now();
  static_cast<void>(lease.release());
  auto got = waiting.get();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_LT(base::BootClock::now() - stopped, kLeaseAndElections);
  cluster_->server(leader).resume();
  EXPECT_TRUE(eventually([&] { return got->renew().has_value(); }));
  EXPECT_TRUE(got->held());
}

TEST_F(ConsulClusterFaultsTest, AMinorityOfOneGrantsNothing) {
  Client one = connect(cluster_->url({{"session", "3s"}}));
  Lease lease = hold(one, "a");
  const std::size_t leader = cluster_->leader();
  cluster_->server((leader + 1) % 3).pause();
  cluster_->server((leader + 2) % 3).pause();
  EXPECT_FALSE(one.mutex("b").acquire({.wait = 5s}));
  EXPECT_FALSE(one.mutex("b").try_acquire());
  cluster_->server((leader + 1) % 3).resume();
  cluster_->server((leader + 2) % 3).resume();
  EXPECT_TRUE(one.mutex("b").acquire({.wait = kLong}));
}

}  // namespace
}  // namespace holdfast::faults
