// Faults around a real PostgreSQL server, seen through the store.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/random.h"
#include "src/stores/postgres/postgres_store.h"
#include "tests/conformance/harness.h"
#include "tests/support/child_process.h"
#include "tests/support/eventually.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/loopback.h"
#include "tests/support/pgbouncer.h"
#include "tests/support/postgres_server.h"
#include "tests/support/temp_folder.h"

namespace holdfast::testing {
namespace {

using support::Fault;
using support::FaultProxy;
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

class UrlSite final : public Site {
 public:
  explicit UrlSite(std::string url) : url_(std::move(url)) {}
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    return stores::make_postgres_store(*port::StoreUrl::parse(url_), context);
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

class PostgresFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_POSTGRES(); }
};

TEST_F(PostgresFaultsTest, AGrantWhoseReplyIsLostIsFoundAgain) {
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

TEST_F(PostgresFaultsTest, AReleaseWhoseReplyIsLostReleases) {
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
TEST_F(PostgresFaultsTest, AGrantThatArrivesAfterTheReleaseChangesNothing) {
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

TEST_F(PostgresFaultsTest, AnUnreachableServerIsUnavailableInTime) {
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

// Nothing of it is the caller's problem, and no lock is left behind.
TEST_F(PostgresFaultsTest, TerminatedBackendsLoseNothing) {
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
    server().sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'holdfast'");
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

TEST_F(PostgresFaultsTest, AKilledServerForgetsNoGrant) {
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

}  // namespace
}  // namespace holdfast::testing
