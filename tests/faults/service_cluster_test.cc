// `holdfast serve` as several processes on one journal in etcd: killed, paused, stopped and
// doubled, seen by clients that name all of them.
#include "tests/faults/service_cluster.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "holdfast/detail/transient.h"
#include "holdfast/log_event.h"
#include "holdfast/stores.h"
#include "src/base/clock.h"
#include "tests/faults/client_side.h"
#include "tests/faults/crowd.h"
#include "tests/support/etcd_server.h"
#include "tests/support/holdfast_server.h"
#include "tests/support/loopback.h"

namespace holdfast::faults {
namespace {

using base::BootClock;
using holdfast::testing::Crowd;
using support::EtcdCluster;
using support::HoldfastServer;

std::string ask(const HoldfastServer& server, const std::string& request) {
  return support::exchange_on_loopback(server.port(), request + "*1\r\n$4\r\nQUIT\r\n", 5s);
}

// A server answers before it has asked etcd who leads.
void expect_told(const HoldfastServer& server, const std::string& wanted) {
  std::string told;
  EXPECT_TRUE(eventually([&] {
    told = ask(server, "*3\r\n$3\r\nHF1\r\n$6\r\nattach\r\n$1\r\n0\r\n");
    return told.starts_with("-STANDBY") && told.find(wanted) != std::string::npos;
  })) << told;
}

TEST(ServiceClusterTest, OneServerLeadsAndTheOtherSaysWho) {
  ServiceCluster cluster;
  EXPECT_TRUE(cluster[0].leads());
  EXPECT_FALSE(cluster[1].leads());
  expect_told(cluster[1],
              "127.0.0.1:" + std::to_string(cluster[0].port()) + " was last seen leading");
  EXPECT_NE(ask(cluster[1], "*1\r\n$4\r\nPING\r\n").find("+PONG"), std::string::npos);
  const Client client = connect(cluster.url());
  EXPECT_TRUE(client.guarantees().survives_failover);
  Lease lease = hold(client, "a");
  expect_released(lease);
}

TEST(ServiceClusterTest, TheOthersTellTheAddressThatAServerAdvertises) {
  EtcdCluster etcd;
  const HoldfastServer leads({.journal = etcd.url("/locks"),
                              .arguments = {"--shards", "1", "--advertise", "locks.example:7420"}});
  EXPECT_TRUE(eventually([&] { return leads.leads(); }));
  const HoldfastServer follows({.journal = etcd.url("/locks")});
  expect_told(follows, "locks.example:7420 was last seen leading");
}

// Longer than one round of asking all servers takes.
TEST(ServiceClusterTest, AServerThatIsAskedToStepsDownAndNoLeaseEnds) {
  ServiceCluster cluster({}, 2, "60s");
  const Client client = connect(cluster.url());
  auto lease = client.mutex("a").acquire({.wait = kLong, .ttl = 20s});
  ASSERT_TRUE(lease) << lease.error().message();
  const auto before = service_status(cluster.url());
  ASSERT_TRUE(before);
  ASSERT_EQ(before->size(), 2U);
  EXPECT_TRUE(before->front().leads);
  EXPECT_EQ(before->front().holders, 1U);
  EXPECT_TRUE(eventually(
      [&] { return service_status(cluster.url())->back().leader == before->front().address; }));
  const auto asked = step_down(cluster.url());
  ASSERT_TRUE(asked) << asked.error().message();
  EXPECT_EQ(*asked, before->front().address);
  EXPECT_TRUE(eventually([&] { return service_status(cluster.url())->back().leads; }, 30s))
      << "nobody waits for the lease of leadership";
  // It stays out of the election for longer than this.
  EXPECT_TRUE(eventually(
      [&] {
        return service_status(cluster.url())->front().leader == before->back().address;
      },
      3s))
      << "the one that stepped down knows who leads";
  EXPECT_TRUE(eventually([&] { return static_cast<bool>(lease->renew()); }));
  EXPECT_TRUE(lease->held());
  expect_released(*lease);
}

// Its user may use the journal's keys except those of the list.
TEST(ServiceClusterTest, AServerThatMayNotRegisterServesAsAnyOther) {
  EtcdCluster etcd({.auth = true});
  etcd.etcdctl({"role", "add", "locks"});
  const std::string keys = "locks/hf1/j/";
  for (const auto& [from, to] : {std::pair{"a", "m"}, std::pair{"n", "z"}}) {
    etcd.etcdctl({"role", "grant-permission", "locks", "readwrite", keys + from, keys + to});
  }
  etcd.etcdctl({"user", "add", "alice:s3cret-Pw"});
  etcd.etcdctl({"user", "grant-role", "alice", "locks"});
  HoldfastServer server({.journal = etcd.url("/locks", "alice@"),
                         .arguments = {"--shards", "1"},
                         .environment = {"HOLDFAST_ETCD_PASSWORD=s3cret-Pw"}});
  EXPECT_TRUE(eventually([&] { return server.leads(); }));
  const auto members = service_members(server.url());
  ASSERT_FALSE(members);
  EXPECT_EQ(members.error().code(), Errc::kPermissionDenied) << members.error().message();
  const Client client = connect(server.url());
  Lease lease = hold(client, "a");
  expect_released(lease);
  EXPECT_EQ(server.terminate(), 0);
}

TEST(ServiceClusterTest, AServerThatSteppedDownAloneLeadsAgain) {
  ServiceCluster cluster({}, 1, "60s");
  const std::string term = service_status(cluster.url())->front().term;
  ASSERT_TRUE(step_down(cluster.url()));
  EXPECT_TRUE(eventually([&] {
    const ServerStatus now = service_status(cluster.url())->front();
    return now.leads && now.term != term;
  }));
  const Client client = connect(cluster.url());
  Lease lease = hold(client, "a");
  expect_released(lease);
}

TEST(ServiceClusterTest, AClientThatIsOpenedWhileNoServerLeadsWaitsForOne) {
  ServiceCluster cluster({}, 2, "10s");
  cluster[0].kill9();
  const auto client = Client::connect(cluster.url());
  ASSERT_TRUE(client) << client.error().message();
  Lease lease = hold(*client, "a");
  expect_released(lease);
}

// Its first request meets nobody who leads, for longer than a request may take.
TEST(ServiceClusterTest, AClientThatFirstAsksWhileNoServerLeadsWaitsForOne) {
  ServiceCluster cluster({}, 2, "10s");
  std::promise<std::string> held_up;
  ClientOptions options;
  options.request_timeout = 1s;
  options.log_event = [&, told = false](const LogEvent& event) mutable {
    if (event.lock == "a" && !std::exchange(told, true)) held_up.set_value(event.text);
  };
  const auto client = Client::connect(cluster.url(), options);
  ASSERT_TRUE(client) << client.error().message();
  cluster[0].kill9();
  const auto begun = BootClock::now();
  const auto short_wait = client->mutex("b").acquire({.wait = 500ms});
  ASSERT_FALSE(short_wait);
  // The request may have left on a connection that was not known to be dead.
  EXPECT_TRUE(detail::is_transient(short_wait.error().code())) << short_wait.error().message();
  EXPECT_LT(BootClock::now() - begun, 2s + kBusyMachine);
  EXPECT_FALSE(client->mutex("b").try_acquire()) << "a try does not wait";
  Lease lease = hold(*client, "a");
  auto told = held_up.get_future();
  ASSERT_EQ(told.wait_for(kLong), std::future_status::ready);
  EXPECT_NE(told.get().find("waiting for the store to be back"), std::string::npos);
  expect_released(lease);
}

TEST(ServiceClusterTest, SeveralLocksThatAreAskedForWhileNoServerLeadsAreWaitedFor) {
  ServiceCluster cluster({}, 2, "10s");
  const Client client = connect(cluster.url(), 1s);
  cluster[0].kill9();
  EXPECT_FALSE(client.try_acquire_all({{"a"}, {"b"}})) << "a try does not wait";
  auto both = client.acquire_all({{"a"}, {"b"}}, {.wait = kLong});
  ASSERT_TRUE(both) << both.error().message();
  EXPECT_TRUE(both->held());
  EXPECT_TRUE(both->release());
}

TEST(ServiceClusterTest, AWaitIsKeptWhileTheJournalTakesNothing) {
  ServiceCluster cluster({}, 1, "60s");
  const Client client = connect(cluster.url(), 30s);
  Lease first = hold(client, "a");
  expect_released(first);
  cluster.etcd().pause();
  const auto begun = BootClock::now();
  const auto lease = client.mutex("a").acquire({.wait = 2s});
  EXPECT_FALSE(lease);
  // Two seconds are for taking back what may have been granted.
  EXPECT_LT(BootClock::now() - begun, 4s + kBusyMachine);
  cluster.etcd().resume();
}

TEST(ServiceClusterTest, AGrantOutlivesTheKillOfTheLeader) {
  ServiceCluster cluster;
  const Client one = connect(cluster.url());
  const Client two = connect(cluster.url());
  auto lease = one.mutex("a").acquire({.wait = kLong, .ttl = 60s});
  ASSERT_TRUE(lease) << lease.error().message();
  auto waiting = wait_for(two, "a");
  cluster[0].kill9();
  EXPECT_TRUE(eventually([&] { return cluster[1].leads(); }));
  EXPECT_TRUE(eventually([&] { return static_cast<bool>(lease->renew()); }))
      << "the next leader knows it";
  const auto tried = two.mutex("a").try_acquire();
  EXPECT_TRUE(tried && !*tried);
  const Token first = lease->token();
  expect_released(*lease);
  auto second = waiting.get();
  ASSERT_TRUE(second) << second.error().message();
  EXPECT_GT(second->token(), first);
}

// Renewals come each third of the lease, so one of them finds that no server leads.
TEST(ServiceClusterTest, ALeaseIsInDoubtUntilTheNextServerLeadsAndNotLost) {
  ServiceCluster cluster({}, 2, "10s");
  const Client client = connect(cluster.url());
  const auto lease = client.mutex("a").acquire({.wait = kLong, .ttl = 20s});
  ASSERT_TRUE(lease) << lease.error().message();
  ASSERT_EQ(lease->state(), LeaseState::kHeld);
  cluster[0].kill9();
  EXPECT_TRUE(eventually([&] { return lease->state() == LeaseState::kInDoubt; }, 20s));
  EXPECT_TRUE(lease->held());
  EXPECT_TRUE(eventually([&] { return lease->state() == LeaseState::kHeld; }));
  EXPECT_TRUE(cluster[1].leads());
  EXPECT_FALSE(lease->loss());
}

TEST(ServiceClusterTest, AnOrderlyEndHandsTheLocksOnAtOnce) {
  ServiceCluster cluster({}, 2, "60s");
  const Client one = connect(cluster.url());
  auto lease = one.mutex("a").acquire({.wait = kLong, .ttl = 60s, .auto_renew = false});
  ASSERT_TRUE(lease);
  const auto left = [&] {
    const auto info = connect(cluster.url()).inspect("a");
    if (!info || !*info || (*info)->holders.empty()) return milliseconds(0);
    return (*info)->holders[0].time_left;
  };
  const auto before = BootClock::now();
  EXPECT_EQ(cluster[0].terminate(), 0);
  EXPECT_TRUE(eventually([&] { return cluster[1].leads(); }, 30s))
      << "nobody waits for the lease of leadership";
  EXPECT_LE(left(), 60s - (BootClock::now() - before) + 1s) << "its lease was not lengthened";
  EXPECT_GT(left(), 1s);
  EXPECT_TRUE(eventually([&] { return static_cast<bool>(lease->renew()); }));
}

// It is the worst that can happen to a lease-based leader: it does not know that it is over.
TEST(ServiceClusterTest, ALeaderThatStoodStillAnswersNothingAfterwards) {
  ServiceCluster cluster;
  const Client one = connect(cluster.url());
  auto lease = one.mutex("a").acquire({.wait = kLong, .ttl = 3s, .auto_renew = false});
  ASSERT_TRUE(lease);
  const Token first = lease->token();
  cluster[0].pause();
  EXPECT_TRUE(eventually([&] { return cluster[1].leads(); }));
  const Client two = connect(cluster.url());
  Lease second = hold(two, "a");
  EXPECT_GT(second.token(), first);
  EXPECT_FALSE(lease->held());
  cluster[0].resume();
  EXPECT_TRUE(eventually([&] { return !cluster[0].leads(); }));
  EXPECT_FALSE(lease->renew());
  EXPECT_TRUE(second.renew());
  EXPECT_EQ(cluster.leader(), 1U);
}

TEST(ServiceClusterTest, NeverTwoAreInsideWhileLeadersAreKilled) {
  ServiceCluster cluster({.members = 3}, 3);
  Crowd crowd(cluster.url(), 4, {.ttl = 4s, .wait = 30s});
  crowd.await_grants(50);
  for (int round = 0; round < 4; ++round) {
    const std::size_t leader = cluster.leader();
    cluster[leader].kill9();
    crowd.await_grants(20);
    cluster[leader].start();
  }
  crowd.stop();
}

TEST(ServiceClusterTest, NeverTwoAreInsideWhileEtcdLosesItsLeader) {
  ServiceCluster cluster({.members = 3}, 2);
  Crowd crowd(cluster.url(), 4, {.ttl = 10s, .wait = 30s});
  crowd.await_grants(50);
  for (int round = 0; round < 2; ++round) {
    const std::size_t member = cluster.etcd().leader();
    cluster.etcd().kill9(member);
    crowd.await_grants(20);
    cluster.etcd().start(member);
    cluster.etcd().await_health();
    const std::size_t next = cluster.etcd().leader();
    cluster.etcd().pause(next);
    crowd.await_grants(20);
    cluster.etcd().resume(next);
  }
  crowd.stop();
}

TEST(ServiceClusterTest, LeasesAreRenewedWhileEtcdIsAwayForAMoment) {
  ServiceCluster cluster({}, 2, "10s");
  const Client one = connect(cluster.url());
  auto lease = one.mutex("a").acquire({.wait = kLong, .ttl = 20s});
  ASSERT_TRUE(lease);
  cluster.etcd().pause();
  // By the deadline of leadership.
  EXPECT_TRUE(lease->renew()) << "within the lease of leadership";
  cluster.etcd().resume();
  EXPECT_TRUE(eventually([&] { return static_cast<bool>(lease->renew()); }));
  expect_released(*lease);
}

// The lead ends only with its lease, and nothing is granted meanwhile.
TEST(ServiceClusterTest, WithoutAMajorityOfEtcdNoServerIsReadyLongBeforeTheLeadEnds) {
  constexpr auto kLeadership = 40s;
  ServiceCluster cluster({.members = 3}, 2, "40s");
  const auto readiness = [&](std::size_t server) {
    return support::exchange_on_loopback(
        cluster.http_port(server),
        "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 5s);
  };
  const auto says = [&](std::size_t server, const std::string& what) {
    return eventually([&] { return readiness(server).find(what) != std::string::npos; });
  };
  EXPECT_TRUE(says(0, "ready\n"));
  EXPECT_TRUE(says(1, "standing by: " + cluster.address(0) + " leads"));
  const std::size_t gone[] = {0, 2};
  for (const std::size_t member : gone) cluster.etcd().pause(member);
  const auto began = BootClock::now();
  EXPECT_TRUE(says(0, "503 Service Unavailable")) << readiness(0);
  EXPECT_TRUE(says(0, "leads, and the journal does not answer"));
  EXPECT_TRUE(says(1, "standing by, and the journal does not answer"));
  const auto silent = service_status(cluster.url());
  ASSERT_TRUE(silent) << silent.error().message();
  EXPECT_TRUE(silent->front().leads);
  EXPECT_FALSE(silent->front().journal_answers);
  EXPECT_FALSE(silent->back().journal_answers);
  EXPECT_LT(BootClock::now() - began, kLeadership / 2);
  for (const std::size_t member : gone) cluster.etcd().resume(member);
  const std::size_t leader = cluster.leader();
  EXPECT_TRUE(says(leader, "ready\n")) << readiness(leader);
  EXPECT_TRUE(says(1 - leader, "standing by: " + cluster.address(leader) + " leads"));
}

TEST(ServiceClusterTest, WithoutRoomNothingIsGrantedAndLeasesGoOn) {
  ServiceCluster cluster({.arguments = {"--quota-backend-bytes=4000000"}});
  const Client one = connect(cluster.url());
  auto lease = one.mutex("a").acquire({.wait = kLong, .ttl = 6s});
  ASSERT_TRUE(lease);
  const std::string block(100'000, 'x');  // The longest that an argument may be is 128 KiB.
  EXPECT_TRUE(eventually([&] {
    try {
      cluster.etcd().etcdctl({"put", "filler", block});
      return false;
    } catch (const std::runtime_error&) {
      return true;
    }
  }));
  std::string why;
  EXPECT_TRUE(eventually([&] {
    const auto tried = one.mutex("b").try_acquire();
    why = tried ? "granted, or busy" : tried.error().message();
    return !tried && tried.error().code() == Errc::kUnavailable;
  })) << why;
  EXPECT_FALSE(fires(lease->lost(), 8s)) << "longer than its ttl";
  EXPECT_TRUE(lease->held());
  EXPECT_TRUE(cluster[0].leads());
  // The first client's connection waits for the answer about "b".
  const auto current = connect(cluster.url()).check("a", lease->token());
  ASSERT_TRUE(current) << current.error().message();
  EXPECT_TRUE(*current) << "a write that takes no room proves the lead";
  // As etcd's manual says.
  const std::string json = cluster.etcd().etcdctl({"get", "filler", "-w", "json"});
  const auto at = json.find("\"revision\":");
  cluster.etcd().etcdctl({"compact", std::to_string(std::stoull(json.substr(at + 11)))});
  cluster.etcd().etcdctl({"defrag"});
  cluster.etcd().etcdctl({"alarm", "disarm"});
  EXPECT_TRUE(eventually([&] {
    auto taken = one.mutex("b").try_acquire();
    return taken && *taken;
  }));
  EXPECT_TRUE(lease->held());
}

TEST(ServiceClusterTest, WithoutEtcdAServerDoesNotStartAndNamesAllThatItAsked) {
  ServiceCluster cluster({.members = 3});
  cluster[1].kill9();
  for (std::size_t member = 0; member < 3; ++member) cluster.etcd().kill9(member);
  try {
    cluster[1].start();
    ADD_FAILURE() << "it started";
  } catch (const std::runtime_error& error) {
    const std::string why = error.what();
    EXPECT_NE(why.find("no connection"), std::string::npos) << why;
    for (std::size_t member = 0; member < cluster.etcd().size(); ++member) {
      const std::string address = "127.0.0.1:" + std::to_string(cluster.etcd().port(member));
      EXPECT_NE(why.find(address), std::string::npos) << why;
    }
  }
}

TEST(ServiceClusterTest, ServersStandByUntilEtcdIsBack) {
  ServiceCluster cluster;
  const Client one = connect(cluster.url());
  auto lease = one.mutex("a").acquire({.wait = kLong, .ttl = 300s, .auto_renew = false});
  ASSERT_TRUE(lease);
  cluster.etcd().kill9();
  EXPECT_TRUE(eventually([&] { return !cluster[0].leads(); }));
  cluster.etcd().start();
  cluster.leader();
  EXPECT_TRUE(eventually([&] { return static_cast<bool>(lease->renew()); }));
}

}  // namespace
}  // namespace holdfast::faults
