// Faults of a real MariaDB server and of the network before it, seen through the public library.
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/faults/client_side.h"
#include "tests/faults/dead_waiters.h"
#include "tests/faults/process_harness.h"
#include "tests/support/clock_shift.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/mariadb_server.h"
#include "tests/support/tls_files.h"

namespace holdfast::faults {
namespace {

using support::ClockShift;
using support::Direction;
using support::Fault;
using support::FaultProxy;
using support::MariadbServer;

std::string url_at(const std::string& hosts, const std::string& options = {}) {
  return "mysql://root@" + hosts + "/test?connect_timeout=500ms" + options;
}
std::string at_port(std::uint16_t port) { return "127.0.0.1:" + std::to_string(port); }
std::string url_of(const MariadbServer& server, const std::string& options = {}) {
  return url_at(at_port(server.port()), options);
}

Lease hold_for(const Client& client, const std::string& name, milliseconds ttl) {
  auto lease = client.mutex(name).acquire({.wait = kLong, .ttl = ttl});
  if (!lease) throw std::runtime_error(lease.error().message());
  return *std::move(lease);
}

bool nobody_holds(const Client& client, const std::string& name) {
  const auto info = client.inspect(name);
  return info && (!*info || (*info)->holders.empty());
}

// Holders of it as the store knows them.
std::size_t holders_of(const Client& client, const std::string& name) {
  const auto info = client.inspect(name).value();
  return info ? info->holders.size() : 0;
}

class MysqlServerFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_MARIADB(); }
};

// --- Who may come in.

std::vector<std::string> tls_settings(const support::KeyPair& files) {
  return {"--ssl-cert=" + files.certificate, "--ssl-key=" + files.key};
}

TEST_F(MysqlServerFaultsTest, CertificatesAreChecked) {
  const auto& files = support::tls_files();
  const MariadbServer server({.tcp = true, .settings = tls_settings(files.server)});
  const auto url = [&](const MariadbServer& to, const std::string& ca) {
    return "mysqls://root@" + at_port(to.port()) + "/test?tls_ca=" + ca;
  };
  EXPECT_TRUE(hold(connect(url(server, files.ca)), "a").held());
  const auto refused = Client::connect(url(server, files.foreign_ca));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::kPermissionDenied) << refused.error().message();

  const MariadbServer elsewhere({.tcp = true, .settings = tls_settings(files.wrong_host)});
  const auto wrong = Client::connect(url(elsewhere, files.ca));
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code(), Errc::kPermissionDenied) << wrong.error().message();
  EXPECT_NE(wrong.error().message().find("127.0.0.1"), std::string::npos)
      << wrong.error().message();
}

TEST_F(MysqlServerFaultsTest, AServerWithoutTlsIsNotUsedWithoutIt) {
  const MariadbServer server({.tcp = true, .settings = {"--skip-ssl"}});
  const auto refused = Client::connect("mysqls://root@" + at_port(server.port()) +
                                       "/test?tls_ca=" + support::tls_files().ca);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("SSL"), std::string::npos) << refused.error().message();
}

// --- The server stands still, or is cut off.

// For longer than the lease: the holder is told first, and its late release frees nothing.
template <typename Begin, typename End>
void expect_told_before_another_holds(const Client& one, const Client& two, Begin begin, End end) {
  Lease lease = hold_for(one, "a", 1s);
  auto waiting = wait_for(two, "a");
  begin();
  EXPECT_TRUE(fires(lease.lost()));
  const auto told = base::BootClock::now();
  EXPECT_FALSE(lease.held());
  end();
  auto got = waiting.get();
  const auto granted = base::BootClock::now();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_LT(told, granted);
  EXPECT_GT(got->token(), lease.token());
  EXPECT_FALSE(lease.release()) << "a zombie's release";
  EXPECT_TRUE(got->renew());
  EXPECT_EQ(holders_of(two, "a"), 1U);
}

TEST_F(MysqlServerFaultsTest, AHolderIsToldOfItsLossWhileTheServerIsPaused) {
  MariadbServer server({.tcp = true});
  const Client one = connect(url_of(server));
  const Client two = connect(url_of(server));
  expect_told_before_another_holds(
      one, two,
      [&] {
        server.pause();
        const auto tried = two.mutex("b").try_acquire();
        EXPECT_FALSE(tried) << "the server goes on";
      },
      [&] { server.resume(); });
}

TEST_F(MysqlServerFaultsTest, AHolderThatIsCutOffIsToldBeforeAnotherHolds) {
  const MariadbServer server({.tcp = true});
  FaultProxy proxy({.server_port = server.port()});
  const Client one = connect(url_at(at_port(proxy.port())));
  const Client two = connect(url_of(server));
  expect_told_before_another_holds(
      one, two,
      [&] {
        proxy.add({.kind = Fault::Kind::kBlackhole});
        proxy.add({.kind = Fault::Kind::kBlackhole, .direction = Direction::kToClient});
      },
      [&] { proxy.remove_all(); });
}

TEST_F(MysqlServerFaultsTest, AReleaseThatArrivesWhenAnotherHoldsFreesNothing) {
  const MariadbServer server({.tcp = true});
  FaultProxy proxy({.server_port = server.port()});
  const Client one = connect(url_at(at_port(proxy.port())), 300ms);
  const Client two = connect(url_of(server));
  Lease lease = hold_for(one, "a", 500ms);
  const int held = proxy.add({.kind = Fault::Kind::kHold, .direction = Direction::kToServer});
  const auto released = lease.release();
  ASSERT_FALSE(released);
  EXPECT_TRUE(released.error().code() == Errc::kOutcomeUnknown ||
              released.error().code() == Errc::kUnavailable)
      << released.error().message();
  ASSERT_TRUE(proxy.wait_for_hits(held));
  const Lease next = hold(two, "a");
  const auto before = support::at(proxy.stats().forwarded, Direction::kToServer);
  proxy.remove(held);
  ASSERT_TRUE(proxy.wait_for([&](const support::ProxyStats& stats) {
    return support::at(stats.forwarded, Direction::kToServer) > before &&
           support::at(stats.pending, Direction::kToServer) == 0;
  }));
  EXPECT_TRUE(eventually([&] { return one.inspect("a").has_value(); }));
  ASSERT_EQ(holders_of(two, "a"), 1U);
  EXPECT_EQ(two.inspect("a").value()->holders.front().token, next.token());
}

// --- A statement that ends in the middle.

// Another session has the lock's row, so the client's statement waits for it, and is ended.
void expect_that_an_end_loses_nothing(const std::string& how) {
  const MariadbServer server({.tcp = true});
  const Client client = connect(url_of(server));
  Lease lease = hold(client, "a");
  auto locker = std::async(std::launch::async, [&] {
    try {
      server.sql("BEGIN; SELECT 1 FROM holdfast_locks FOR UPDATE; SELECT SLEEP(60)");
    } catch (const std::runtime_error&) {  // Its session is ended below.
    }
  });
  const auto end_of = [&](const std::string& command, const std::string& which) {
    return eventually([&] {
      const std::string id = server.sql(
          "SELECT MAX(id) FROM information_schema.processlist WHERE info LIKE '" + which + "%'");
      if (id == "NULL\n") return false;
      server.sql(command + " " + id);
      return true;
    });
  };
  ASSERT_TRUE(eventually([&] {
    return server.sql("SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE "
                      "'SELECT SLEEP%'") == "1\n";
  }));
  auto releasing = std::async(std::launch::async, [&] { return lease.release(); });
  EXPECT_TRUE(end_of(how, "UPDATE `holdfast_locks`"));
  EXPECT_TRUE(end_of("KILL", "SELECT SLEEP"));
  locker.wait();
  const auto released = releasing.get();
  EXPECT_TRUE(released) << released.error().message();
  EXPECT_TRUE(nobody_holds(client, "a"));
}

TEST_F(MysqlServerFaultsTest, AConnectionThatIsKilledInMidStatementLosesNothing) {
  expect_that_an_end_loses_nothing("KILL");
}

TEST_F(MysqlServerFaultsTest, AStatementThatIsKilledLosesNothing) {
  expect_that_an_end_loses_nothing("KILL QUERY");
}

// A session of somebody keeps the row for longer than a statement waits for it.
TEST_F(MysqlServerFaultsTest, ALockTimeoutIsTriedAgainInside) {
  const MariadbServer server({.tcp = true});
  const Client client = connect("mysql://root@" + at_port(server.port()) + "/test", 20s);
  Lease lease = hold(client, "a");
  auto locker = std::async(std::launch::async, [&] {
    server.sql("BEGIN; SELECT 1 FROM holdfast_locks FOR UPDATE; SELECT SLEEP(3)");
  });
  ASSERT_TRUE(eventually([&] {
    return server.sql("SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE "
                      "'SELECT SLEEP%'") == "1\n";
  }));
  const auto released = lease.release();
  EXPECT_TRUE(released) << released.error().message();
  locker.get();
}

// The grant is committed, and the server is killed before it can say so.
TEST_F(MysqlServerFaultsTest, ACommitWhoseOutcomeIsUnknownIsLookedUp) {
  MariadbServer server({.tcp = true, .settings = {"--innodb-flush-log-at-trx-commit=1"}});
  FaultProxy proxy({.server_port = server.port()});
  const Client client = connect(url_at(at_port(proxy.port())), 20s);
  const Token before = [&] {
    Lease first = hold(client, "a");
    expect_released(first);
    return first.token();
  }();
  const int lost = proxy.add({.kind = Fault::Kind::kHold, .direction = Direction::kToClient});
  auto waiting = std::async(std::launch::async, [&] { return client.mutex("a").try_acquire(); });
  ASSERT_TRUE(proxy.wait_for_hits(lost));
  server.kill9();
  proxy.remove_all();
  proxy.reset_all();
  server.start();
  auto got = waiting.get();
  ASSERT_TRUE(got) << got.error().message();
  ASSERT_TRUE(*got) << "it stands in its own way";
  EXPECT_GT((*got)->token(), before);
  EXPECT_EQ(holders_of(client, "a"), 1U);
  expect_released(**got);
  EXPECT_TRUE(nobody_holds(client, "a"));
}

// --- Clients that die.

TEST_F(MysqlServerFaultsTest, WhenTheHolderIsKilledTenWaitersFollowInOrder) {
  const MariadbServer server({.tcp = true});
  ActorProcess holder(url_of(server));
  ASSERT_EQ(holder.ask("acquire a 1000").word, "granted");
  std::vector<Client> clients;
  std::vector<std::future<Result<Lease>>> waiting;
  for (int i = 0; i < 10; ++i) clients.push_back(connect(url_of(server)));
  for (const Client& client : clients) waiting.push_back(wait_for(client, "a"));
  holder.kill();
  const auto killed = base::BootClock::now();
  Token last;
  for (auto& each : waiting) {
    auto got = each.get();
    ASSERT_TRUE(got) << got.error().message();
    EXPECT_GT(got->token(), last);
    last = got->token();
    expect_released(*got);
  }
  EXPECT_LT(base::BootClock::now() - killed, 1s + kBusyMachine);
}

class MysqlDeaths : public ::testing::TestWithParam<Deaths> {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_MARIADB(); }
};
TEST_P(MysqlDeaths, WaitersThatDieCostOneLease) {
  const MariadbServer server({.tcp = true});
  expect_that_dead_waiters_cost_one_lease(url_of(server), GetParam().dead);
}
INSTANTIATE_TEST_SUITE_P(Queue, MysqlDeaths, all_places_of_death(),
                         [](const auto& each) { return each.param.name; });

// --- Many clients.

// Deadlocks, serialization failures and lock timeouts are not theirs to see.
TEST_F(MysqlServerFaultsTest, ThirtyTwoProcessesOnOneNameSeeNoError) {
  const MariadbServer server(
      {.tcp = true, .settings = {"--max-connections=200"}});
  std::vector<std::unique_ptr<ActorProcess>> crowd;
  for (int i = 0; i < 32; ++i) crowd.push_back(std::make_unique<ActorProcess>(url_of(server)));
  for (const auto& each : crowd) each->send("churn a 10");
  for (const auto& each : crowd) {
    const Line done = each->answer(kLong);
    EXPECT_EQ(done.word, "churned") << done.get("text");
  }
  EXPECT_TRUE(nobody_holds(connect(url_of(server)), "a"));
}

// --- Clocks.

class MysqlClockFaultsTest : public MysqlServerFaultsTest {
 protected:
  void SetUp() override {
    MysqlServerFaultsTest::SetUp();
    if (IsSkipped()) return;
    server_ = std::make_unique<MariadbServer>(
        support::MariadbOptions{.tcp = true, .clock_shift_file = clock_.path()});
    one_ = connect(url_of(*server_));
    two_ = connect(url_of(*server_));
  }

  ClockShift clock_;
  std::unique_ptr<MariadbServer> server_;
  std::optional<Client> one_, two_;
};

TEST_F(MysqlClockFaultsTest, AheadTwoBelieveTheyHoldAndTheFirstIsToldWhenItRenews) {
  Lease lease = hold_for(*one_, "a", 30s);
  Lease watched = hold_for(*one_, "long", 60s);
  clock_.set(40s);
  Lease next = hold_for(*two_, "a", 30s);
  EXPECT_TRUE(lease.held()) << "the declared cell: it cannot know yet";
  EXPECT_GT(next.token(), lease.token());
  const auto renewed = lease.renew();
  ASSERT_FALSE(renewed);
  EXPECT_EQ(renewed.error().code(), Errc::kLost);
  EXPECT_TRUE(fires(lease.lost()));
  EXPECT_FALSE(lease.release());
  EXPECT_TRUE(next.renew());
  EXPECT_TRUE(watched.renew()) << "longer than the jump";
}

TEST_F(MysqlClockFaultsTest, BackTheHolderGoesOnAndTheWaiterFollows) {
  Lease lease = hold_for(*one_, "a", 2s);
  auto waiting = wait_for(*two_, "a");
  clock_.set(-100s);
  EXPECT_TRUE(lease.renew());
  // Its leases are renewed for longer than the first one lasted.
  EXPECT_FALSE(fires(lease.lost(), 2500ms));
  EXPECT_TRUE(lease.held());
  EXPECT_EQ(waiting.wait_for(0s), std::future_status::timeout) << "two hold it";
  const Token first = lease.token();
  expect_released(lease);
  auto got = waiting.get();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_GT(got->token(), first);
  EXPECT_TRUE(got->renew());
}

// Its lease counts on from the lock's last command.
TEST_F(MysqlClockFaultsTest, BackALockThatNobodyRenewsIsFreeAfterItsLease) {
  Lease lease = hold_for(*one_, "a", 1s);
  const Token token = lease.token();
  lease.detach();
  clock_.set(-100s);
  const auto set_back = base::BootClock::now();
  auto next = two_->mutex("a").acquire({.wait = kLong, .ttl = 1s});
  ASSERT_TRUE(next) << next.error().message();
  EXPECT_LT(base::BootClock::now() - set_back, 1s + kBusyMachine);
  EXPECT_GT(next->token(), token);
}

TEST_F(MysqlServerFaultsTest, AJumpOfTheClientsClockChangesNothing) {
  const MariadbServer server({.tcp = true});
  const ClockShift clock;
  ActorOptions options;
  options.clock_file = clock.path();
  ActorProcess actor(options);
  ASSERT_EQ(actor.ask("connect " + url_of(server)).word, "ok");
  ASSERT_EQ(actor.ask("acquire a 2000").word, "granted");
  for (const char* jump : {"3600000000000", "-7200000000000"}) {
    const Line jumped = actor.ask(std::string("jump ") + jump);
    EXPECT_GT(std::abs(jumped.number("seconds")), 3000) << "the clock has not jumped";
    // Ahead it may have been suspended: the lease is in doubt until its next renewal.
    EXPECT_NE(jumped.get("state"), "kLost");
    EXPECT_EQ(actor.ask("renew").word, "ok");
    EXPECT_EQ(actor.ask("state").get("state"), "kHeld");
  }
  const Client other = connect(url_of(server));
  EXPECT_FALSE(*other.mutex("a").try_acquire());
  EXPECT_EQ(actor.ask("release").word, "ok");
}

}  // namespace
}  // namespace holdfast::faults
