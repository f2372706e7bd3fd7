// Faults around a real MariaDB server, seen through the store.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/random.h"
#include "src/stores/mysql/mysql_store.h"
#include "tests/conformance/harness.h"
#include "tests/support/eventually.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/loopback.h"
#include "tests/support/mariadb_server.h"

namespace holdfast::testing {
namespace {

using support::Fault;
using support::FaultProxy;
using support::MariadbServer;

MariadbServer& server() {
  static MariadbServer one({.tcp = true, .settings = {"--innodb-flush-log-at-trx-commit=1"}});
  return one;
}

std::string url_at(std::uint16_t port, const std::string& options = {}) {
  return "mysql://root@127.0.0.1:" + std::to_string(port) + "/test?connect_timeout=500ms" + options;
}

class UrlSite final : public Site {
 public:
  explicit UrlSite(std::string url) : url_(std::move(url)) {}
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    return stores::make_mysql_store(*port::StoreUrl::parse(url_), context);
  }
  void pass(Duration time) override { std::this_thread::sleep_for(time); }

 private:
  const std::string url_;
};

AcquisitionId fresh() {
  const auto random = base::random_128();
  return {random.high, random.low};
}

std::string hex_of(AcquisitionId id) { return base::to_hex(id.high, id.low); }

// Why a store at that URL does not open.
std::optional<Error> refusal(const std::string& url) {
  TestLoop loop;
  Inbox inbox(loop);
  const auto opened = UrlSite(url).open({&loop, &inbox, "alice", loop.io()});
  if (opened) return std::nullopt;
  return opened.error();
}

class MysqlFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_MARIADB(); }
};

TEST_F(MysqlFaultsTest, AGrantWhoseReplyIsLostIsFoundAgain) {
  FaultProxy proxy({.server_port = server().port()});
  UrlSite site(url_at(proxy.port()));
  Client alice(site, "alice");
  const AcquisitionId id = fresh();
  const int lost =
      proxy.add({.kind = Fault::Kind::kDropReplies, .containing = hex_of(id), .times = 1});
  const auto state = alice.acquire(Request("lost-grant", id));
  ASSERT_TRUE(state) << state.error().message();
  EXPECT_EQ(state->status, AcquisitionStatus::kHeld);
  EXPECT_TRUE(proxy.wait_for_hits(lost));
  EXPECT_EQ(*alice.release("lost-grant", id), EndStatus::kReleased);
}

TEST_F(MysqlFaultsTest, AReleaseWhoseReplyIsLostReleases) {
  FaultProxy proxy({.server_port = server().port()});
  UrlSite site(url_at(proxy.port()));
  Client alice(site, "alice");
  const AcquisitionId id = fresh();
  ASSERT_TRUE(alice.acquire(Request("lost-release", id)));
  proxy.add({.kind = Fault::Kind::kDropReplies, .containing = hex_of(id), .times = 1});
  const auto end = alice.release("lost-release", id);
  ASSERT_TRUE(end) << end.error().message();
  const auto next = alice.acquire(Request("lost-release", fresh()).no_wait());
  ASSERT_TRUE(next);
  EXPECT_EQ(next->status, AcquisitionStatus::kHeld);
}

// The first request arrives when the acquisition, which a second one got, has long ended.
TEST_F(MysqlFaultsTest, AGrantThatArrivesAfterTheReleaseChangesNothing) {
  FaultProxy proxy({.server_port = server().port()});
  UrlSite site(url_at(proxy.port()));
  Client alice(site, "alice");
  const AcquisitionId id = fresh();
  const int held = proxy.add({.kind = Fault::Kind::kHold, .containing = hex_of(id), .times = 1});
  const auto state = alice.acquire(Request("late", id));
  ASSERT_TRUE(state) << state.error().message();
  EXPECT_EQ(state->status, AcquisitionStatus::kHeld);
  EXPECT_EQ(*alice.release("late", id), EndStatus::kReleased);
  const auto before = proxy.stats().replies_to_the_gone;
  proxy.remove(held);
  ASSERT_TRUE(proxy.wait_for(
      [&](const support::ProxyStats& stats) { return stats.replies_to_the_gone > before; }));
  const auto seen = alice.inspect("late");
  ASSERT_TRUE(seen);
  EXPECT_TRUE(!*seen || (*seen)->holders.empty());
  const auto next = alice.acquire(Request("late", fresh()).no_wait());
  ASSERT_TRUE(next);
  EXPECT_EQ(next->status, AcquisitionStatus::kHeld);
}

TEST_F(MysqlFaultsTest, AnUnreachableServerIsUnavailableInTime) {
  FaultProxy proxy({.server_port = server().port()});
  UrlSite site(url_at(proxy.port()));
  Client alice(site, "alice");
  proxy.refuse(true);
  proxy.reset_all();
  Request request("unreachable", fresh());
  request.deadline = base::BootClock::now() + 1s;
  const auto state = alice.acquire(request);
  ASSERT_FALSE(state);
  EXPECT_TRUE(state.error().code() == Errc::kUnavailable ||
              state.error().code() == Errc::kOutcomeUnknown)
      << state.error().message();
  proxy.refuse(false);
  EXPECT_TRUE(support::eventually([&] {
    const auto again = alice.acquire(Request("reachable", fresh()));
    return again && again->status == AcquisitionStatus::kHeld;
  }));
}

// In the middle of whatever they do.
void kill_connections() {
  std::istringstream ids(
      server().sql("SELECT id FROM information_schema.processlist WHERE db = 'test' AND "
                   "id <> CONNECTION_ID()"));
  for (std::string id; ids >> id;) {
    try {
      server().sql("KILL CONNECTION " + id);
    } catch (const std::runtime_error&) {  // It has ended by itself.
    }
  }
}

// Nothing of it is the caller's problem, and no lock is left behind.
TEST_F(MysqlFaultsTest, KilledConnectionsLoseNothing) {
  UrlSite site(url_at(server().port()));
  std::atomic<bool> over{false};
  std::atomic<int> count{0};
  Client alice(site, "alice");
  Client bob(site, "bob");
  Client carol(site, "carol");
  std::vector<std::thread> users;
  for (Client* each : {&alice, &bob, &carol}) {
    users.emplace_back([&, each] {
      Client& client = *each;
      while (!over) {
        const AcquisitionId id = fresh();
        const auto state = client.acquire(Request("terminated", id).no_wait());
        EXPECT_TRUE(state) << state.error().message();
        const auto end = client.release("terminated", id);
        EXPECT_TRUE(end) << end.error().message();
        if (state && state->status == AcquisitionStatus::kHeld) ++count;
      }
    });
  }
  for (int i = 0; i < 10; ++i) {
    const int before = count;
    kill_connections();
    EXPECT_TRUE(support::eventually([&] { return count > before + 3; }));
  }
  over = true;
  for (std::thread& user : users) user.join();
  Client last(site, "last");
  const AcquisitionId id = fresh();
  const auto state = last.acquire(Request("terminated", id).no_wait());
  ASSERT_TRUE(state);
  EXPECT_EQ(state->status, AcquisitionStatus::kHeld);
  EXPECT_TRUE(last.release("terminated", id));
}

// A transaction is one packet, and the server goes on with it when it cannot send its answers.
TEST_F(MysqlFaultsTest, AResetInTheMiddleOfATransactionTearsNothing) {
  FaultProxy proxy({.server_port = server().port()});
  UrlSite site(url_at(proxy.port(), "&prefix=reset_"));
  std::atomic<bool> over{false};
  std::atomic<int> count{0};
  Client alice(site, "alice");
  Client bob(site, "bob");
  Client carol(site, "carol");
  std::vector<std::thread> users;
  for (Client* each : {&alice, &bob, &carol}) {
    users.emplace_back([&, each] {
      Client& client = *each;
      while (!over) {
        const AcquisitionId first = fresh();
        const AcquisitionId second = fresh();
        const auto sound = [](const auto& answer) {
          EXPECT_TRUE(answer || answer.error().code() != Errc::kCorruptState)
              << answer.error().message();
        };
        sound(client.acquire(Request("reset", first)));
        sound(client.acquire(Request("reset", second)));
        sound(client.release("reset", first));
        sound(client.cancel("reset", second));
        ++count;
      }
    });
  }
  for (int i = 0; i < 60; ++i) {
    const int before = count;
    proxy.reset_all();
    EXPECT_TRUE(support::eventually([&] { return count > before; }));
  }
  over = true;
  for (std::thread& user : users) user.join();
  EXPECT_EQ(server().sql("SELECT COUNT(*) FROM reset_locks l WHERE l.tickets <> "
                         "(SELECT COUNT(*) FROM reset_tickets t WHERE t.name = l.name)"),
            "0\n");
}

TEST_F(MysqlFaultsTest, AKilledServerForgetsNoGrant) {
  UrlSite site(url_at(server().port()));
  Client alice(site, "alice");
  Client bob(site, "bob");
  const AcquisitionId held = fresh();
  const AcquisitionId waits = fresh();
  const auto before = alice.acquire(Request("killed", held));
  ASSERT_TRUE(before);
  ASSERT_EQ(bob.acquire(Request("killed", waits))->status, AcquisitionStatus::kWaiting);
  server().kill9();
  server().start();
  ASSERT_TRUE(support::eventually([&] { return alice.renew("killed", held, 1).has_value(); }));
  EXPECT_EQ(alice.renew("killed", held, 2)->status, AcquisitionStatus::kHeld);
  EXPECT_EQ(*alice.release("killed", held), EndStatus::kReleased);
  std::uint64_t seq = 0;
  Token token;
  EXPECT_TRUE(support::eventually([&] {
    const auto state = bob.renew("killed", waits, ++seq);
    if (state) token = state->token;
    return state && state->status == AcquisitionStatus::kHeld;
  }));
  EXPECT_GT(token, before->token);
}

TEST_F(MysqlFaultsTest, WhatIsWrongWithTheServerIsToldByName) {
  const std::string newer_url = url_at(server().port(), "&prefix=newer_");
  {
    UrlSite site(newer_url);
    Client alice(site, "alice");
  }
  server().sql("UPDATE newer_meta SET format = 2");
  const auto newer = refusal(newer_url);
  ASSERT_TRUE(newer);
  EXPECT_EQ(newer->code(), Errc::kVersionMismatch);

  const auto missing =
      refusal("mysql://root@127.0.0.1:" + std::to_string(server().port()) + "/not_there");
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->code(), Errc::kInvalidArgument);
  EXPECT_NE(missing->message().find("CREATE DATABASE"), std::string::npos) << missing->message();
}

// While the client is connected, and before it connects.
TEST_F(MysqlFaultsTest, AServerThatOnlyReadsIsToldByName) {
  MariadbServer own({.tcp = true});
  const std::string url = url_at(own.port());
  UrlSite site(url);
  Client alice(site, "alice");
  ASSERT_TRUE(alice.acquire(Request("before", fresh())));
  own.sql("SET GLOBAL read_only = 1");
  const auto refused = refusal(url);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code(), Errc::kUnavailable);
  EXPECT_NE(refused->message().find("only reads"), std::string::npos) << refused->message();
  own.sql("SET GLOBAL read_only = 0");
  EXPECT_FALSE(refusal(url));
}

TEST_F(MysqlFaultsTest, AWrongPasswordAndAMissingRightAreTold) {
  MariadbServer guarded({.tcp = true, .users = true});
  guarded.sql("CREATE USER app@'%' IDENTIFIED BY 'right'");
  guarded.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON test.* TO app@'%'");
  const auto url = [&](const std::string& password) {
    return "mysql://app:" + password + "@127.0.0.1:" + std::to_string(guarded.port()) + "/test";
  };
  const auto denied = refusal(url("right"));
  ASSERT_TRUE(denied) << "it may not make tables";
  EXPECT_EQ(denied->code(), Errc::kPermissionDenied) << denied->message();
  guarded.sql("GRANT CREATE ON test.* TO app@'%'");
  EXPECT_FALSE(refusal(url("right")));
  const auto wrong = refusal(url("seven-wrong"));
  ASSERT_TRUE(wrong);
  EXPECT_EQ(wrong->code(), Errc::kPermissionDenied) << wrong->message();
  EXPECT_EQ(wrong->message().find("seven-wrong"), std::string::npos);
  // Demoted while it is connected: this user may not write to such a server.
  UrlSite site(url("right"));
  Client alice(site, "alice");
  guarded.sql("SET GLOBAL read_only = 1");
  const auto state = alice.acquire(Request("demoted", fresh()));
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code(), Errc::kUnavailable) << state.error().message();
  EXPECT_NE(state.error().message().find("only reads"), std::string::npos)
      << state.error().message();
}

TEST_F(MysqlFaultsTest, TheFirstHostThatTakesWritesIsUsed) {
  MariadbServer replica({.tcp = true});
  replica.sql("SET GLOBAL read_only = 1");
  const support::ReservedPort nobody;
  const std::string url = "mysql://root@127.0.0.1:" + std::to_string(nobody.number()) +
                          ",127.0.0.1:" + std::to_string(replica.port()) +
                          ",127.0.0.1:" + std::to_string(server().port()) +
                          "/test?prefix=hosts_";
  UrlSite site(url);
  Client alice(site, "alice");
  EXPECT_TRUE(alice.acquire(Request("hosts", fresh())));
  EXPECT_EQ(server().sql("SELECT COUNT(*) FROM hosts_locks"), "1\n");
}

// The server's own settings do not matter.
TEST_F(MysqlFaultsTest, TheServersSettingsDoNotChangeWhatIsStored) {
  MariadbServer odd({.tcp = true,
                     .settings = {"--sql-mode=ANSI,NO_BACKSLASH_ESCAPES,SIMULTANEOUS_ASSIGNMENT",
                                  "--autocommit=0", "--default-time-zone=+13:00",
                                  "--transaction-isolation=SERIALIZABLE",
                                  "--character-set-server=utf16", "--completion-type=1"}});
  odd.sql("SET GLOBAL sql_select_limit = 1");
  UrlSite site(url_at(odd.port()));
  Client alice(site, "alice");
  const std::string name = "it's \"x\"\\ \xc3\xa4";
  const AcquisitionId first = fresh();
  const auto held = alice.acquire(Request(name, first));
  ASSERT_TRUE(held) << held.error().message();
  const auto seconds = static_cast<std::int64_t>(held->token.counter / 1'000'000);
  EXPECT_LT(std::abs(seconds - std::time(nullptr)), 60) << "the token counts from UTC";
  EXPECT_EQ(*alice.release(name, first), EndStatus::kReleased);
  UrlSite again(url_at(odd.port()));
  Client bob(again, "bob");
  const auto next = bob.acquire(Request(name, fresh()));
  ASSERT_TRUE(next);
  EXPECT_GT(next->token, held->token);
  // A step reads the whole queue, whatever sql_select_limit is.
  for (int waiter = 0; waiter < 3; ++waiter) {
    const auto queued = alice.acquire(Request(name, fresh()));
    ASSERT_TRUE(queued) << queued.error().message();
    EXPECT_EQ(queued->status, AcquisitionStatus::kWaiting);
  }
}

TEST_F(MysqlFaultsTest, TheDoctorFindsALogThatIsNotFlushed) {
  MariadbServer lazy({.tcp = true, .settings = {"--innodb-flush-log-at-trx-commit=2"}});
  UrlSite site(url_at(lazy.port()));
  Client alice(site, "alice");
  const auto findings = alice.probe();
  ASSERT_TRUE(findings);
  const auto found = std::find_if(findings->begin(), findings->end(), [](const Finding& finding) {
    return finding.topic == "durability" && finding.severity == Severity::kProblem;
  });
  ASSERT_NE(found, findings->end());
  EXPECT_NE(found->what.find("innodb_flush_log_at_trx_commit"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::testing
