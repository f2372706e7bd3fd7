// Holders and waiters on ZooKeeper while servers, connections and clients fail.
#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <zookeeper/zookeeper.h>

#include "holdfast/holdfast.h"
#include "tests/faults/client_side.h"
#include "tests/faults/keys_of_no_lock.h"
#include "tests/faults/later_format.h"
#include "tests/support/child_process.h"
#include "tests/support/clock_shift.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/loopback.h"
#include "tests/support/zookeeper_server.h"

namespace holdfast::faults {
namespace {

using support::Fault;
using support::FaultProxy;
using support::ZookeeperServer;

// Its servers are stopped for seconds.
Client patient(const std::string& url) { return connect(url, 20s); }

std::future<Result<Lease>> wait_for_lock(Client client, const std::string& name) {
  return std::async(std::launch::async, [client = std::move(client), name] {
    return client.mutex(name).acquire({.wait = kLong, .ttl = 60s});
  });
}

class ZookeeperFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_ZOOKEEPER();
    chroot_ = "/case" + std::to_string(++cases);
  }
  // Both come up when first named, and serve all cases.
  static ZookeeperServer& server() {
    static ZookeeperServer the_server;
    return the_server;
  }
  static ZookeeperServer& ensemble() {
    static ZookeeperServer the_servers({.members = 3, .tick = 200ms});
    return the_servers;
  }
  std::string url(const std::string& session) const {
    return server().url(chroot_ + "?session=" + session);
  }
  std::string ensemble_url(const std::string& session) const {
    return ensemble().url(chroot_ + "?session=" + session);
  }
  static inline int cases = 0;
  std::string chroot_;
};

TEST_F(ZookeeperFaults, AHolderWhoseServerIsSilentIsToldBeforeAnybodyElseHolds) {
  const Client holder = patient(url("1s"));
  auto lease = holder.mutex("orders").acquire({.wait = kLong, .ttl = 30s});
  ASSERT_TRUE(lease) << lease.error().message();
  const Client other = patient(url("1s"));
  auto next = wait_for_lock(other, "orders");
  server().pause();
  EXPECT_TRUE(fires(lease->lost()));
  EXPECT_FALSE(lease->held());
  server().resume();
  auto got = next.get();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_GT(got->token(), lease->token());
  EXPECT_FALSE(lease->release());
  EXPECT_TRUE(got->held());  // The late release freed nobody's lock.
  // A new session serves the old client.
  EXPECT_TRUE(holder.mutex("another").acquire({.wait = kLong, .ttl = 30s}));
}

TEST_F(ZookeeperFaults, OneServerPromisesNoFailover) {
  const Client client = connect(server().url());
  EXPECT_TRUE(client.guarantees().survives_restart);
  EXPECT_FALSE(client.guarantees().survives_failover);
  EXPECT_FALSE(client.doctor().value().guarantees.survives_failover);
}

TEST_F(ZookeeperFaults, ThreeServersPromiseAFailover) {
  EXPECT_TRUE(connect(ensemble().url()).guarantees().survives_failover);
}

// The leader hears of the sessions at its followers every half tick.
TEST_F(ZookeeperFaults, TheDoctorWarnsOfASessionOfFewTicks) {
  const auto ticks = [](const std::string& url) {
    const auto report = connect(url).doctor();
    for (const Finding& each : report.value().findings) {
      if (each.topic == "ticks") return std::optional(each);
    }
    return std::optional<Finding>();
  };
  const auto few = ticks(ensemble_url("1s"));
  ASSERT_TRUE(few);
  EXPECT_EQ(few->severity, Severity::kWarning) << few->what;
  EXPECT_NE(few->advice.find("session=1200ms"), std::string::npos) << few->advice;
  const auto enough = ticks(ensemble_url("1200ms"));
  ASSERT_TRUE(enough);
  EXPECT_EQ(enough->severity, Severity::kOk) << enough->what;
  EXPECT_FALSE(ticks(url("1s"))) << "one server by itself has no followers";
}

// The client library went on trying, and nobody was told why nothing came of it.
TEST_F(ZookeeperFaults, WhereNobodyListensConnectingSaysSo) {
  const support::ReservedPort nobody;
  const std::string address = "127.0.0.1:" + std::to_string(nobody.number());
  const auto client = Client::connect("zookeeper://" + address);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code(), Errc::kUnavailable);
  EXPECT_NE(client.error().message().find(address + ": Connection refused"), std::string::npos)
      << client.error().message();
}

TEST_F(ZookeeperFaults, AServerThatIsKilledAndComesBackForgetsNoGrant) {
  const Client holder = patient(url("60s"));
  auto lease = holder.mutex("orders").acquire({.wait = kLong, .ttl = 60s});
  ASSERT_TRUE(lease) << lease.error().message();
  auto next = wait_for_lock(patient(url("60s")), "orders");
  server().kill9();
  server().start();
  server().await_serving();
  EXPECT_TRUE(lease->renew()) << "the session goes on";
  EXPECT_TRUE(lease->held());
  EXPECT_EQ(next.wait_for(0s), std::future_status::timeout);
  ASSERT_TRUE(lease->release());
  auto got = next.get();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_GT(got->token(), lease->token());
}

TEST_F(ZookeeperFaults, AWaiterOutlastsAServerThatIsAwayForLongerThanItsSession) {
  expect_a_waiter_outlasts(
      url("2s"), [] { server().kill9(); },
      [] {
        server().start();
        server().await_serving();
      });
}

// The library takes no password just then; and of two servers that refuse it would go on with one.
TEST_F(ZookeeperFaults, WhoComesWhileTheServerIsAwayIsLoggedInWhenItIsBack) {
  // Somebody listens all the time, though nothing is behind that: else connecting would fail.
  const support::ReservedPort nothing;
  FaultProxy listener({.server_port = nothing.number()});
  const std::string with_password = "zookeeper://alice:s3cret-Pw@" + server().servers() +
                                    ",127.0.0.1:" + std::to_string(listener.port()) + chroot_ +
                                    "?session=10s";
  {
    const Client first = patient(with_password);
    ASSERT_TRUE(hold(first, "made by alice").release());
  }
  server().kill9();
  std::vector<std::future<Client>> come;
  for (int i = 0; i < 24; ++i) {
    come.push_back(std::async(std::launch::async, [&] { return connect(with_password, kLong); }));
  }
  std::vector<std::future<Result<Lease>>> asked;
  for (int i = 0; i < 24; ++i) {
    asked.push_back(
        wait_for_lock(come[static_cast<std::size_t>(i)].get(), "lock " + std::to_string(i)));
  }
  // They have tried to connect.
  const Client last = connect(with_password, 1s);
  EXPECT_FALSE(last.mutex("another").try_acquire());
  server().start();
  for (auto& one : asked) {
    const auto got = one.get();
    EXPECT_TRUE(got) << got.error().message();
  }
}

TEST_F(ZookeeperFaults, ALostReplyToTheGrantLeavesOneContenderAndNoLockForNobody) {
  FaultProxy proxy({.server_port = server().port()});
  const std::string through =
      "zookeeper://127.0.0.1:" + std::to_string(proxy.port()) + chroot_ + "?session=20s";
  const Client client = patient(through);
  ASSERT_TRUE(client.mutex("orders").acquire({.wait = kLong, .ttl = 30s}));  // Makes the folder.
  const int lost =
      proxy.add({.kind = Fault::Kind::kDropReplies, .containing = "/locks/orders/", .times = 1});
  auto asked = wait_for_lock(client, "orders");
  ASSERT_TRUE(proxy.wait_for_hits(lost));
  const Client looker = patient(url("20s"));
  for (int i = 0; i < 600; ++i) {  // Until the server has applied it.
    const auto info = looker.inspect("orders");
    ASSERT_TRUE(info) << info.error().message();
    if (*info && (*info)->holders.size() == 1) break;
    std::this_thread::sleep_for(100ms);
  }
  proxy.reset_all();
  auto lease = asked.get();
  ASSERT_TRUE(lease) << lease.error().message();
  const auto info = looker.inspect("orders");
  ASSERT_TRUE(info && *info);
  EXPECT_EQ((*info)->holders.size(), 1U);
  EXPECT_TRUE((*info)->waiters.empty());
  ASSERT_TRUE(lease->release());
  const auto tried = looker.mutex("orders").try_acquire({.ttl = 30s});
  ASSERT_TRUE(tried) << tried.error().message();
  EXPECT_TRUE(tried->has_value());
}

TEST_F(ZookeeperFaults, ALostReplyToTheReleaseIsFoundOut) {
  FaultProxy proxy({.server_port = server().port()});
  const std::string through =
      "zookeeper://127.0.0.1:" + std::to_string(proxy.port()) + chroot_ + "?session=20s";
  const Client client = patient(through);
  auto lease = client.mutex("orders").acquire({.wait = kLong, .ttl = 30s});
  ASSERT_TRUE(lease) << lease.error().message();
  const int lost =
      proxy.add({.kind = Fault::Kind::kDropReplies, .containing = "/locks/orders/", .times = 1});
  auto released = std::async(std::launch::async, [&] { return lease->release(); });
  ASSERT_TRUE(proxy.wait_for_hits(lost));
  auto got = wait_for_lock(patient(url("20s")), "orders").get();  // It arrived.
  EXPECT_TRUE(got) << got.error().message();
  proxy.reset_all();
  const auto outcome = released.get();
  EXPECT_TRUE(outcome) << outcome.error().message();
  EXPECT_TRUE(got->held());
}

TEST_F(ZookeeperFaults, AClientThatIsPartedFromItsServerIsToldFirst) {
  FaultProxy proxy({.server_port = server().port()});
  const std::string through =
      "zookeeper://127.0.0.1:" + std::to_string(proxy.port()) + chroot_ + "?session=1s";
  auto lease = patient(through).mutex("orders").acquire({.wait = kLong, .ttl = 30s});
  ASSERT_TRUE(lease) << lease.error().message();
  auto next = std::async(std::launch::async, [other = patient(url("1s")), token = lease->lost()] {
    auto got = other.mutex("orders").acquire({.wait = kLong, .ttl = 30s});
    return std::pair(std::move(got), token.stop_requested());
  });
  proxy.add({.kind = Fault::Kind::kBlackhole, .direction = support::Direction::kToServer});
  proxy.add({.kind = Fault::Kind::kBlackhole, .direction = support::Direction::kToClient});
  auto [got, told] = next.get();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_TRUE(told);
  EXPECT_FALSE(lease->held());
  EXPECT_GT(got->token(), lease->token());
}

TEST_F(ZookeeperFaults, AWaiterWhoseSessionEndsStandsInTheQueueAnew) {
  const Client holder = patient(url("60s"));
  auto lease = holder.mutex("orders").acquire({.wait = kLong, .ttl = 60s});
  ASSERT_TRUE(lease) << lease.error().message();
  auto next = wait_for_lock(patient(url("1s")), "orders");
  const auto waiters = [&] {
    const auto info = holder.inspect("orders");
    return info && *info ? (*info)->waiters.size() : 0;
  };
  ASSERT_TRUE(eventually([&] { return waiters() != 0; }));
  server().pause();
  std::this_thread::sleep_for(2s);  // Longer than the waiter's session.
  server().resume();
  ASSERT_TRUE(lease->renew()) << "the holder's session is longer";
  // The old place goes and the new one comes at any time.
  EXPECT_TRUE(eventually([&] { return waiters() == 1; }));
  ASSERT_TRUE(lease->release());
  const auto got = next.get();
  EXPECT_TRUE(got) << got.error().message();
}

TEST_F(ZookeeperFaults, TenWaitersGoOnWhenTheHolderIsKilled) {
  support::ChildProcess holder({.arguments = {HOLDFAST_PROGRAM, "run", "--store", url("1s"),
                                              "--ttl", "1s", "orders", "--", "sleep", "600"}});
  const Client looker = patient(url("1s"));
  const auto held = [&] {
    const auto info = looker.inspect("orders");
    return info && *info && !(*info)->holders.empty();
  };
  ASSERT_TRUE(eventually(held));
  std::vector<std::future<bool>> waiters;
  for (int i = 0; i < 10; ++i) {
    waiters.push_back(std::async(std::launch::async, [client = patient(url("1s"))] {
      auto lease = client.mutex("orders").acquire({.wait = kLong, .ttl = 30s});
      return lease && lease->release();
    }));
  }
  holder.kill9();
  for (auto& waiter : waiters) EXPECT_TRUE(waiter.get());
}

TEST_F(ZookeeperFaults, AnotherUserIsRefusedWithAClearError) {
  const std::string rest = chroot_ + "?session=1s";
  const Client owner = patient(server().url(rest, "alice:secret-one@"));
  auto lease = owner.mutex("orders").acquire({.wait = kLong, .ttl = 30s});
  ASSERT_TRUE(lease) << lease.error().message();
  for (const std::string login : {"alice:secret-two@", ""}) {
    const auto tried = Client::connect(server().url(rest, login));
    ASSERT_FALSE(tried);
    EXPECT_EQ(tried.error().code(), Errc::kPermissionDenied) << tried.error().message();
    EXPECT_EQ(tried.error().message().find("secret"), std::string::npos);
  }
  EXPECT_TRUE(lease->held());
}

TEST_F(ZookeeperFaults, NobodyIsLetInBesideARecordThatCannotBeRead) {
  zhandle_t* const raw =
      zookeeper_init(server().servers().c_str(), nullptr, 10'000, nullptr, nullptr, 0);
  const RecordSite site{[&] { return patient(url("20s")); },
                        [&](const std::string& lock, const std::string& text) {
                          const std::string folder = chroot_ + "/hf1/locks/" + lock;
                          const int length = static_cast<int>(text.size());
                          int rc = ZCONNECTIONLOSS;
                          while (rc == ZCONNECTIONLOSS) {
                            rc = zoo_set(raw, folder.c_str(), text.data(), length, -1);
                          }
                          if (rc == ZNONODE) {
                            rc = zoo_create(raw, folder.c_str(), text.data(), length,
                                            &ZOO_OPEN_ACL_UNSAFE, 0, nullptr, 0);
                          }
                          ASSERT_EQ(rc, ZOK) << folder;
                        }};
  expect_unreadable_records_refused(site);
  expect_a_waiter_refused(site);
  expect_others_listed(site, url("20s"));
  expect_others_watched(site);
  zookeeper_close(raw);
}

TEST_F(ZookeeperFaults, AContenderThatCannotBeReadKeepsItsPlaceAndIsNamed) {
  zhandle_t* const raw =
      zookeeper_init(server().servers().c_str(), nullptr, 10'000, nullptr, nullptr, 0);
  expect_unreadable_contenders_shown(
      {url("20s"), [&](const std::string& lock, const std::string& name, const std::string& text) {
         const std::string node = chroot_ + "/hf1/locks/" + lock + "/" + name + "-";
         char made[300] = {};
         int rc = ZCONNECTIONLOSS;
         while (rc == ZCONNECTIONLOSS) {
           rc = zoo_create(raw, node.c_str(), text.data(), static_cast<int>(text.size()),
                           &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL | ZOO_SEQUENCE, made, sizeof made);
         }
         EXPECT_EQ(rc, ZOK) << node;
         return [raw, path = std::string(made)] { zoo_delete(raw, path.c_str(), -1); };
       }});
  zookeeper_close(raw);
}

TEST_F(ZookeeperFaults, ATryOnAStoppedServerEndsInTime) {
  expect_tries_in_time(
      url("20s"), [] { server().pause(); }, [] { server().resume(); });
}

TEST_F(ZookeeperFaults, KeysOfNoKnownLockAreTold) {
  const Client client = patient(url("20s"));
  const auto lease = client.mutex("orders").acquire({.wait = kLong, .ttl = 30s});
  ASSERT_TRUE(lease) << lease.error().message();
  zhandle_t* const raw =
      zookeeper_init(server().servers().c_str(), nullptr, 10'000, nullptr, nullptr, 0);
  for (const char* place : {"/hf1/locks/%by-hand", "/hf1/locks/orders/by-hand"}) {
    const std::string stray = chroot_ + place;
    int rc = ZCONNECTIONLOSS;
    while (rc == ZCONNECTIONLOSS) {
      rc = zoo_create(raw, stray.c_str(), "x", 1, &ZOO_OPEN_ACL_UNSAFE, 0, nullptr, 0);
    }
    ASSERT_EQ(rc, ZOK) << stray;
    expect_told_of(url("20s"), stray);
    ASSERT_EQ(zoo_delete(raw, stray.c_str(), -1), ZOK);
  }
  zookeeper_close(raw);
}

TEST_F(ZookeeperFaults, ATtlShorterThanTheSessionIsRefusedByName) {
  const auto tried = patient(url("5s")).mutex("orders").acquire({.wait = 1s, .ttl = 1s});
  ASSERT_FALSE(tried);
  EXPECT_EQ(tried.error().code(), Errc::kInvalidArgument);
  EXPECT_NE(tried.error().message().find("session"), std::string::npos);
}

TEST_F(ZookeeperFaults, AKeptLeaseOutlastsItsClientAndARestart) {
  expect_a_kept_lease_outlasts(
      url("20s"), [] { server().kill9(); },
      [] {
        server().start();
        server().await_serving();
      });
}

TEST_F(ZookeeperFaults, ALostAnswerToTheTransferLosesNothing) {
  FaultProxy proxy({.server_port = server().port()});
  expect_a_lost_transfer_loses_nothing(
      "zookeeper://127.0.0.1:" + std::to_string(proxy.port()) + chroot_ + "?session=20s",
      url("20s"), proxy, "kept_us");
}

// Declared (docs/stores/zookeeper.md): such a lease ends by the leader's clock. One hour ahead, it
// is over for the others while its holder believes. Tokens grow, so a resource refuses the holder.
TEST_F(ZookeeperFaults, AJumpOfTheLeadersClockEndsAKeptLeaseEarly) {
  support::ClockShift clock;
  ZookeeperServer shifted({.clock_shift_file = clock.path()});
  const Client one = patient(shifted.url("/clock?session=20s"));
  const Client two = patient(shifted.url("/clock?session=20s"));
  Lease ordinary = hold(one, "ordinary");
  auto kept = one.mutex("kept").acquire({.wait = kLong, .ttl = 600s, .auto_renew = false});
  ASSERT_TRUE(kept) << kept.error().message();
  EXPECT_FALSE(two.mutex("kept").try_acquire().value());
  clock.set(1h);
  auto early = two.mutex("kept").acquire({.wait = kLong});
  ASSERT_TRUE(early) << early.error().message();
  EXPECT_TRUE(kept->held()) << "both believe";
  EXPECT_GT(early->token(), kept->token());
  EXPECT_FALSE(kept->renew()) << "the holder hears of it at its next request";
  EXPECT_TRUE(ordinary.renew()) << "other leases do not depend on that clock";
  EXPECT_FALSE(two.mutex("ordinary").try_acquire().value());
}

TEST_F(ZookeeperFaults, PermitsEndWithTheirClient) {
  const auto tried = patient(url("1s")).semaphore("orders", 3).acquire(
      1, {.wait = 1s, .ttl = 30s, .outlives_client = true});
  ASSERT_FALSE(tried);
  EXPECT_EQ(tried.error().code(), Errc::kUnsupported);
}

// --- Three servers.

// A session of 20 s, and two elections: four seconds (syncLimit) until a silent leader is given up,
// and one for what follows.
constexpr milliseconds kLeaseAndElections = 30s;

TEST_F(ZookeeperFaults, ALeaseSurvivesTheLeadersEnd) {
  const Client client = patient(ensemble_url("20s"));
  auto lease = client.mutex("orders").acquire({.wait = kLong, .ttl = 30s});
  ASSERT_TRUE(lease) << lease.error().message();
  auto next = wait_for_lock(patient(ensemble_url("20s")), "orders");
  const auto leader = ensemble().leader();
  ASSERT_TRUE(leader);
  const auto killed = base::BootClock::now();
  ensemble().kill9(*leader);
  auto other = patient(ensemble_url("20s")).mutex("another").acquire({.wait = kLong, .ttl = 30s});
  EXPECT_TRUE(other) << other.error().message();
  EXPECT_TRUE(lease->held());
  EXPECT_TRUE(lease->renew());
  ASSERT_TRUE(lease->release());
  const auto got = next.get();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_LT(base::BootClock::now() - killed, kLeaseAndElections);
  EXPECT_GT(got->token(), lease->token());
  ensemble().start(*leader);
  ensemble().await_serving();
}

TEST_F(ZookeeperFaults, ASessionThatTheServersMakeShorterIsCountedOnAsItIs) {
  ZookeeperServer strict({.config = {"maxSessionTimeout=4000"}});
  const Client client = patient(strict.url("/strict?session=10m"));
  // Nobody has named a ttl; and of ten minutes there would be that much.
  auto lease = client.mutex("orders").acquire({.wait = kLong, .min_remaining = 4min});
  ASSERT_TRUE(lease) << lease.error().message();
  EXPECT_LE(lease->remaining(), 4s);
  EXPECT_EQ(client.guarantees().least_renewal, 2s);
  expect_released(*lease);
}

TEST_F(ZookeeperFaults, AFollowersEndCostsNoLock) {
  const Client client = patient(ensemble_url("20s"));
  auto lease = client.mutex("orders").acquire({.wait = kLong, .ttl = 30s});
  ASSERT_TRUE(lease) << lease.error().message();
  auto next = wait_for_lock(patient(ensemble_url("20s")), "orders");
  const auto follower = ensemble().follower();
  ASSERT_TRUE(follower);
  ensemble().kill9(*follower);
  EXPECT_TRUE(lease->renew());
  EXPECT_TRUE(lease->held());
  EXPECT_EQ(next.wait_for(0s), std::future_status::timeout);
  ASSERT_TRUE(lease->release());
  const auto got = next.get();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_GT(got->token(), lease->token());
  ensemble().start(*follower);
  ensemble().await_serving();
}

TEST_F(ZookeeperFaults, ALeaderThatStandsStillIsReplacedAndNobodyHoldsTwice) {
  const Client client = connect(ensemble_url("20s"), kLeaseAndElections);
  auto lease = client.mutex("orders").acquire({.wait = kLong, .ttl = 30s});
  ASSERT_TRUE(lease) << lease.error().message();
  auto next =
      std::async(std::launch::async,
                 [other = connect(ensemble_url("20s"), kLeaseAndElections), token = lease->lost()] {
                   auto got = other.mutex("orders").acquire({.wait = kLong, .ttl = 30s});
                   return std::pair(std::move(got), token.stop_requested());
                 });
  const auto leader = ensemble().leader();
  ASSERT_TRUE(leader);
  ensemble().pause(*leader);
  const auto stopped = base::BootClock::now();
  auto other = connect(ensemble_url("20s"), kLeaseAndElections)
                   .mutex("another")
                   .acquire({.wait = kLong, .ttl = 30s});
  EXPECT_TRUE(other) << other.error().message();
  const bool kept = lease->held();
  if (kept) {
    EXPECT_TRUE(lease->release());
  }
  auto [got, told] = next.get();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_LT(base::BootClock::now() - stopped, kLeaseAndElections);
  EXPECT_TRUE(kept || told);
  EXPECT_GT(got->token(), lease->token());
  ensemble().resume(*leader);
  ensemble().await_serving();
}

}  // namespace
}  // namespace holdfast::faults
