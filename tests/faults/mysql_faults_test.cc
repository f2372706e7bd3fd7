// Faults around a real MariaDB server, seen through the store.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <future>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "src/stores/mysql/mysql_store.h"
#include "tests/faults/sql_faults_suite.h"
#include "tests/faults/url_site.h"
#include "tests/support/eventually.h"
#include "tests/support/loopback.h"
#include "tests/support/mariadb_server.h"

namespace holdfast::testing {
namespace {

using support::MariadbServer;

MariadbServer& server() {
  static MariadbServer one({.tcp = true, .settings = {"--innodb-flush-log-at-trx-commit=1"}});
  return one;
}

std::string url_at(std::uint16_t port, const std::string& options = {}) {
  return "mysql://root@127.0.0.1:" + std::to_string(port) + "/test?connect_timeout=500ms" + options;
}

using UrlSite = UrlSiteOf<&stores::make_mysql_store>;

std::optional<Error> refusal(const std::string& url) {
  return refusal_of<&stores::make_mysql_store>(url);
}

struct Mysql {
  using UrlSite = testing::UrlSite;

  static void need() { HOLDFAST_NEEDS_MARIADB(); }
  static std::uint16_t port() { return server().port(); }
  static std::string url_at(std::uint16_t port) { return testing::url_at(port); }
  // In the middle of whatever they do.
  static void end_connections() {
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
  static void kill_and_start() {
    server().kill9();
    server().start();
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(OnMariadb, SqlFaultsTest, Mysql);

class MysqlFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_MARIADB(); }
};

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

// Requests that came while a lock was busy go together, as one statement.
TEST_F(MysqlFaultsTest, ARequestWithTimeLeftOutlivesTheDeadlineOfItsNeighbour) {
  FaultProxy proxy({.server_port = server().port()});
  UrlSite site("mysql://root@127.0.0.1:" + std::to_string(proxy.port()) +
               "/test?connect_timeout=30s&prefix=together_");
  Client alice(site, "alice");
  const AcquisitionId held = fresh();
  const AcquisitionId next = fresh();
  const AcquisitionId elsewhere = fresh();
  ASSERT_TRUE(alice.acquire(Request("ours", held)));
  const int first = proxy.add({.kind = Fault::Kind::kHold, .containing = hex_of(next)});
  auto queued = alice.start_acquire(Request("ours", next));
  ASSERT_TRUE(proxy.wait_for_hits(first));

  // The connection is taken by these two, one after the other, while two more wait for "ours".
  auto other = alice.start_acquire(Request("theirs", elsewhere));
  Request hurried("ours", fresh());
  hurried.deadline = base::BootClock::now() + 500ms;
  auto late = alice.start_acquire(hurried);
  std::promise<Result<EndStatus>> ended;
  alice.store().release({"ours", held, base::BootClock::now() + 60s, alice.issue_of(held)},
                        [&](const Result<EndStatus>& end) { ended.set_value(end); });
  const int second = proxy.add({.kind = Fault::Kind::kHold, .containing = hex_of(elsewhere)});
  proxy.remove(first);
  ASSERT_TRUE(proxy.wait_for_hits(second));
  const auto failed = late.get();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code(), Errc::kUnavailable) << failed.error().message();

  proxy.remove(second);
  const auto end = ended.get_future().get();
  ASSERT_TRUE(end) << end.error().message();
  EXPECT_EQ(*end, EndStatus::kReleased);
  EXPECT_TRUE(queued.get());
  EXPECT_TRUE(other.get());
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
  const std::size_t told = refused->message().find("only reads");
  EXPECT_NE(told, std::string::npos) << refused->message();
  EXPECT_EQ(refused->message().find("only reads", told + 1), std::string::npos)
      << "told twice: " << refused->message();
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
  for (const char* recipe : {"?recipe=get-lock", "?recipe=for-update", "?recipe=row"}) {
    const auto beside = refusal(url("seven-wrong") + recipe);
    ASSERT_TRUE(beside);
    EXPECT_EQ(beside->code(), Errc::kPermissionDenied) << beside->message();
  }
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

// Its renewals would be refused, all of them.
TEST_F(MysqlFaultsTest, TheDoctorFindsAServerOfSmallPackets) {
  MariadbServer narrow({.tcp = true, .settings = {"--max-allowed-packet=1M"}});
  UrlSite site(url_at(narrow.port()));
  Client alice(site, "alice");
  const auto findings = alice.probe();
  ASSERT_TRUE(findings);
  EXPECT_TRUE(std::any_of(findings->begin(), findings->end(), [](const Finding& finding) {
    return finding.topic == "packets" && finding.severity == Severity::kProblem;
  }));
}

}  // namespace
}  // namespace holdfast::testing
