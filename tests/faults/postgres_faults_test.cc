// Faults around a real PostgreSQL server, seen through the store.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/stores/postgres/postgres_store.h"
#include "tests/faults/sql_faults_suite.h"
#include "tests/faults/url_site.h"
#include "tests/support/child_process.h"
#include "tests/support/eventually.h"
#include "tests/support/loopback.h"
#include "tests/support/pgbouncer.h"
#include "tests/support/postgres_server.h"
#include "tests/support/temp_folder.h"

namespace holdfast::testing {
namespace {

using support::PostgresServer;

PostgresServer& server() {
  static PostgresServer one({.tcp = true, .settings = {"fsync=on"}});
  return one;
}

std::string url_at(std::uint16_t port, const std::string& options = {},
                   const std::string& patience = "500ms") {
  return "postgres://postgres@127.0.0.1:" + std::to_string(port) +
         "/postgres?connect_timeout=" + patience + options;
}

using UrlSite = UrlSiteOf<&stores::make_postgres_store>;

std::optional<Error> refusal(const std::string& url) {
  return refusal_of<&stores::make_postgres_store>(url);
}

struct Postgres {
  using UrlSite = testing::UrlSite;

  static void need() { HOLDFAST_NEEDS_POSTGRES(); }
  static std::uint16_t port() { return server().port(); }
  static std::string url_at(std::uint16_t port) { return testing::url_at(port); }
  static void end_connections() {
    server().sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'holdfast'");
  }
  static void kill_and_start() {
    server().kill9();
    server().start();
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(OnPostgres, SqlFaultsTest, Postgres);

class PostgresFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_POSTGRES(); }
};

// The server takes a second for each connection, so that one which is not awaited comes too late.
TEST_F(PostgresFaultsTest, AHolderThatHasJustConnectedIsToldOfABreak) {
  PostgresServer slow({.tcp = true, .settings = {"post_auth_delay=1"}});
  UrlSite site(url_at(slow.port(), {}, "10s"));
  Client root(site, "root");
  Client alice(site, "alice");
  const AcquisitionId id = fresh();
  const auto grant = alice.acquire(Request("broken", id));
  ASSERT_TRUE(grant) << grant.error().message();
  ASSERT_TRUE(root.break_lock("broken", grant->token, "stuck"));
  EXPECT_TRUE(alice.inbox().next(id));
}

TEST_F(PostgresFaultsTest, WhatIsWrongWithTheServerIsToldByName) {
  {
    UrlSite site(url_at(server().port(), "&schema=newer"));
    Client alice(site, "alice");
  }
  server().sql("UPDATE newer.meta SET format = 2");
  const auto newer = refusal(url_at(server().port(), "&schema=newer"));
  ASSERT_TRUE(newer);
  EXPECT_EQ(newer->code(), Errc::kVersionMismatch);

  server().sql("CREATE ROLE guest LOGIN");
  const std::string guest =
      "postgres://guest@127.0.0.1:" + std::to_string(server().port()) + "/postgres?schema=guests";
  const auto denied = refusal(guest);
  ASSERT_TRUE(denied);
  EXPECT_EQ(denied->code(), Errc::kPermissionDenied) << denied->message();

  server().sql("CREATE ROLE reader LOGIN");
  server().sql("ALTER ROLE reader SET default_transaction_read_only = on");
  const auto reads = refusal("postgres://reader@127.0.0.1:" + std::to_string(server().port()) +
                             "/postgres?schema=guests");
  ASSERT_TRUE(reads);
  EXPECT_EQ(reads->code(), Errc::kUnavailable);
  EXPECT_NE(reads->message().find("only reads"), std::string::npos) << reads->message();

  const auto nobody =
      refusal("postgres://nobody-here@127.0.0.1:" + std::to_string(server().port()) + "/postgres");
  ASSERT_TRUE(nobody);
  EXPECT_EQ(nobody->code(), Errc::kPermissionDenied) << nobody->message();
}

TEST_F(PostgresFaultsTest, AVariableThatNamesAnotherServerIsRefused) {
  ::setenv("PGHOSTADDR", "127.0.0.2", 1);
  const auto refused = refusal(url_at(server().port()));
  ::unsetenv("PGHOSTADDR");
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code(), Errc::kInvalidArgument);
  EXPECT_NE(refused->message().find("PGHOSTADDR"), std::string::npos) << refused->message();
}

// Bytes are read in either form that a role, a database or a server may ask for.
TEST_F(PostgresFaultsTest, EscapedBytesAreReadToo) {
  server().sql("CREATE ROLE escapes LOGIN SUPERUSER");
  server().sql("ALTER ROLE escapes SET bytea_output = escape");
  const std::string url = "postgres://escapes@127.0.0.1:" + std::to_string(server().port()) +
                          "/postgres?schema=escaped";
  UrlSite site(url);
  Client alice(site, "alice");
  Client bob(site, "bob");
  const std::string name = "\\x41 it's \xc3\xa4";
  const AcquisitionId first = fresh();
  const AcquisitionId second = fresh();
  ASSERT_EQ(alice.acquire(Request(name, first))->status, AcquisitionStatus::kHeld);
  const auto queued = bob.acquire(Request(name, second));
  ASSERT_TRUE(queued) << queued.error().message();
  EXPECT_EQ(queued->status, AcquisitionStatus::kWaiting);
  const auto info = alice.inspect(name);
  ASSERT_TRUE(info) << info.error().message();
  ASSERT_TRUE(*info);
  EXPECT_EQ((*info)->name, name);
  EXPECT_EQ((*info)->waiters.size(), 1U);
  ASSERT_EQ(*alice.release(name, first), EndStatus::kReleased);
  const auto told = bob.inbox().next(second);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->kind, Push::Kind::kGranted);
}

TEST_F(PostgresFaultsTest, AWrongPasswordIsToldAndNotShown) {
  PostgresServer guarded({.tcp = true, .passwords = true});
  guarded.sql("CREATE ROLE app LOGIN SUPERUSER PASSWORD 'right'");
  const auto url = [&](const std::string& password) {
    return "postgres://app:" + password + "@127.0.0.1:" + std::to_string(guarded.port()) +
           "/postgres";
  };
  EXPECT_FALSE(refusal(url("right")));
  const auto wrong = refusal(url("seven-wrong"));
  ASSERT_TRUE(wrong);
  EXPECT_EQ(wrong->code(), Errc::kPermissionDenied) << wrong->message();
  EXPECT_EQ(wrong->message().find("seven-wrong"), std::string::npos);
  const auto none =
      refusal("postgres://app@127.0.0.1:" + std::to_string(guarded.port()) + "/postgres");
  ASSERT_TRUE(none);
  EXPECT_EQ(none->code(), Errc::kPermissionDenied) << none->message();
  const std::string elsewhere = url("right") + "-not-there";
  const auto missing = refusal(elsewhere);
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->code(), Errc::kInvalidArgument) << missing->message();
  EXPECT_NE(missing->message().find("CREATE DATABASE"), std::string::npos) << missing->message();
  for (const char* recipe : {"?recipe=advisory", "?recipe=advisory-xact"}) {
    const auto beside = refusal(url("seven-wrong") + recipe);
    ASSERT_TRUE(beside);
    EXPECT_EQ(beside->code(), Errc::kPermissionDenied) << beside->message();
    const auto nowhere = refusal(elsewhere + recipe);
    ASSERT_TRUE(nowhere);
    EXPECT_EQ(nowhere->code(), Errc::kInvalidArgument) << nowhere->message();
  }
}

// The server says it in its own language, so its words tell nothing.
TEST_F(PostgresFaultsTest, AWrongPasswordIsToldInAnyLanguage) {
  ::setenv("LANGUAGE", "de", 1);
  PostgresServer guarded({.tcp = true, .passwords = true, .settings = {"lc_messages=C.UTF-8"}});
  ::unsetenv("LANGUAGE");
  const std::string at = "@127.0.0.1:" + std::to_string(guarded.port()) + "/postgres";
  const auto wrong = refusal("postgres://app:seven-wrong" + at);
  ASSERT_TRUE(wrong);
  if (wrong->message().find("password") != std::string::npos) {
    GTEST_SKIP() << "SKIPPED: this PostgreSQL has no German words: " << wrong->message();
  }
  EXPECT_EQ(wrong->code(), Errc::kPermissionDenied) << wrong->message();
  EXPECT_EQ(wrong->message().find("28P01"), std::string::npos) << wrong->message();
  EXPECT_EQ(wrong->message().find(".c:"), std::string::npos) << wrong->message();
}

TEST_F(PostgresFaultsTest, LocksWorkThroughATransactionPooler) {
  if (const auto why = support::Pgbouncer::unavailable()) GTEST_SKIP() << "SKIPPED: " << *why;
  const support::Pgbouncer pooler(server().port());
  const std::string url = url_at(pooler.port(), "&schema=pooled");
  ASSERT_TRUE(support::eventually([&] { return !refusal(url); }));
  UrlSite site(url);
  Client alice(site, "alice");
  Client bob(site, "bob");
  for (int round = 0; round < 20; ++round) {
    const AcquisitionId first = fresh();
    const AcquisitionId second = fresh();
    ASSERT_EQ(alice.acquire(Request("pooled", first))->status, AcquisitionStatus::kHeld);
    ASSERT_EQ(bob.acquire(Request("pooled", second))->status, AcquisitionStatus::kWaiting);
    ASSERT_EQ(*alice.release("pooled", first), EndStatus::kReleased);
    const auto told = bob.inbox().next(second);
    ASSERT_TRUE(told);
    EXPECT_EQ(told->kind, Push::Kind::kGranted);
    ASSERT_EQ(*bob.release("pooled", second), EndStatus::kReleased);
  }
  const auto findings = alice.probe();
  ASSERT_TRUE(findings);
  bool told = false;
  for (const Finding& finding : *findings) {
    told = told || (finding.topic == "wake-ups" && finding.severity == Severity::kWarning);
  }
  EXPECT_TRUE(told);
}

// Where nothing notifies, the pace of the questions is the length of a handoff.
TEST_F(PostgresFaultsTest, BehindAPoolerTheNextInLineAsksOftenAndTheOthersLess) {
  if (const auto why = support::Pgbouncer::unavailable()) GTEST_SKIP() << "SKIPPED: " << *why;
  PostgresServer counts(
      {.tcp = true, .settings = {"shared_preload_libraries=pg_stat_statements"}});
  counts.sql("CREATE EXTENSION pg_stat_statements");
  const support::Pgbouncer pooler(counts.port());
  const std::string url = url_at(pooler.port());
  ASSERT_TRUE(support::eventually([&] { return !refusal(url); }));
  UrlSite site(url);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 12; ++i) {
    clients.push_back(std::make_unique<Client>(site, "client" + std::to_string(i)));
    ASSERT_TRUE(clients.back()->acquire(Request("paced", fresh()).leases(1h, 1h)));
  }
  const auto questions = [&] {
    return std::stol(counts.sql("SELECT sum(calls) FROM pg_stat_statements WHERE query LIKE "
                                "'%UNION ALL SELECT i.id, t.token, t.seq%'"));
  };
  site.pass(2s);  // Their pauses have grown.
  const auto begun = base::BootClock::now();
  const long before = questions();
  site.pass(3s);
  const double asked = static_cast<double>(questions() - before);
  const std::chrono::duration<double> passed = base::BootClock::now() - begun;
  RecordProperty("questions_per_s", std::to_string(asked / passed.count()));
  // 20 per second from the next in line, 50 from all; 22 if each asked twice a second.
  EXPECT_GT(asked / passed.count(), 30);
  EXPECT_LT(asked / passed.count(), 150);
}

TEST_F(PostgresFaultsTest, TheDoctorFindsAServerThatDoesNotSync) {
  for (const char* lax : {"fsync", "full_page_writes"}) {
    const std::string strict = lax == std::string("fsync") ? "full_page_writes=on" : "fsync=on";
    PostgresServer lazy({.tcp = true, .settings = {strict, std::string(lax) + "=off"}});
    UrlSite site(url_at(lazy.port()));
    Client alice(site, "alice");
    const auto findings = alice.probe();
    ASSERT_TRUE(findings);
    EXPECT_TRUE(std::any_of(findings->begin(), findings->end(), [&](const Finding& finding) {
      return finding.topic == "durability" && finding.severity == Severity::kProblem &&
             finding.what.find(lax) != std::string::npos;
    })) << lax;
  }
}

// The pooler gives the session of a client that has gone to the next one. There is one session.
TEST_F(PostgresFaultsTest, BehindAPoolerNobodyGetsTheAnswerToAClientThatHasGone) {
  if (const auto why = support::Pgbouncer::unavailable()) GTEST_SKIP() << "SKIPPED: " << *why;
  FaultProxy proxy({.server_port = server().port()});
  const support::Pgbouncer pooler(proxy.port(), /*sessions=*/1);
  const std::string url = url_at(pooler.port(), "&schema=gone", "30s");
  ASSERT_TRUE(support::eventually([&] { return !refusal(url); }));
  UrlSite site(url);
  Client bob(site, "bob");
  ASSERT_EQ(bob.acquire(Request("his", fresh()))->status, AcquisitionStatus::kHeld);
  // The order of the pooler's queue varies.
  for (int round = 0; round < 3; ++round) {
    auto alice = std::make_unique<Client>(site, "alice");
    const auto ask = [&](const char* name) {
      return std::async(std::launch::async, [&, name] { return alice->inspect(name); });
    };
    const int answer = proxy.add({.kind = Fault::Kind::kHold,
                                  .direction = support::Direction::kToClient,
                                  .containing = "\\x6f6e65"});
    auto one = ask("one");
    ASSERT_TRUE(proxy.wait_for_hits(answer));
    const int question = proxy.add({.kind = Fault::Kind::kHold, .containing = "\\x74776f"});
    auto two = ask("two");
    // A client that does not wait for the first answer asks now.
    static_cast<void>(proxy.wait_for_hits(question, 1, 500ms));
    proxy.remove(answer);
    ASSERT_TRUE(one.get());
    ASSERT_TRUE(proxy.wait_for_hits(question));
    alice->close();
    EXPECT_FALSE(two.get());
    alice.reset();
    auto his = std::async(std::launch::async, [&] { return bob.inspect("his"); });
    proxy.remove(question);
    const auto seen = his.get();
    ASSERT_TRUE(seen) << seen.error().message();
    ASSERT_TRUE(*seen) << "the answer is about another lock";
    EXPECT_EQ((*seen)->name, "his");
    EXPECT_EQ((*seen)->holders.size(), 1U);
  }
}

}  // namespace
}  // namespace holdfast::testing
