// Faults of a real PostgreSQL server and of the network before it, seen through the public library.
#include <array>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/faults/dead_waiters.h"
#include "tests/faults/sql_replica.h"
#include "tests/faults/sql_server_suite.h"
#include "tests/support/postgres_server.h"

namespace holdfast::faults {
namespace {

using support::PostgresServer;

std::string url_at(const std::string& hosts) {
  return "postgres://postgres@" + hosts + "/postgres?connect_timeout=500ms";
}

struct Place {
  using Server = PostgresServer;
  using Started = std::unique_ptr<Server>;

  static void need() { HOLDFAST_NEEDS_POSTGRES(); }
  static Started start(std::vector<std::string> settings = {}) {
    return started({.tcp = true, .settings = std::move(settings)});
  }
  static Started start_with_clock(const std::string& shift_file) {
    return started({.tcp = true, .clock_shift_file = shift_file});
  }
  static Started start_with_tls(const support::KeyPair& files) {
    return started({.tcp = true, .tls = files});
  }
  static Started start_without_tls() { return start(); }
  static std::vector<std::string> crowd_settings() {
    return {"max_connections=200", "deadlock_timeout=10ms"};
  }
  static std::string url_at(const std::string& host) { return faults::url_at(host); }
  static std::string tls_url_at(const std::string& host) {
    return "postgress://postgres@" + host + "/postgres";
  }
  static constexpr std::array kNamedOfAWrongHost = {std::string_view("elsewhere.invalid"),
                                                    std::string_view("127.0.0.1")};

 private:
  static Started started(support::PostgresOptions options) {
    return std::make_unique<Server>(std::move(options));
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(OnPostgres, SqlServerTest, Place);
INSTANTIATE_TYPED_TEST_SUITE_P(OnPostgres, SqlClockTest, Place);

class PostgresServerFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_POSTGRES(); }
};

// --- A statement that ends in the middle.

// Another session has locked what the statement of `action` needs, and `how` ends the statement
// that waits for it.
void end_while_it_waits(const PostgresServer& server, const std::string& how,
                        const std::string& locks, const std::function<void()>& action) {
  auto locker = std::async(std::launch::async, [&] {
    try {
      server.sql("BEGIN; " + locks + "; SELECT pg_sleep(60)");
    } catch (const std::runtime_error&) {  // Its session is ended below.
    }
  });
  const auto end_of = [&](const std::string& function, const std::string& which) {
    return eventually([&] {
      return server.sql("SELECT count(" + function + "(pid)) FROM pg_stat_activity WHERE " +
                        which) != "0\n";
    });
  };
  ASSERT_TRUE(eventually([&] {
    return server.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") ==
           "1\n";
  }));
  auto acting = std::async(std::launch::async, action);
  EXPECT_TRUE(end_of(how, "application_name = 'holdfast' AND wait_event_type = 'Lock'"));
  EXPECT_TRUE(end_of("pg_terminate_backend", "wait_event = 'PgSleep'"));
  locker.wait();
  acting.get();
}

void expect_that_an_end_loses_nothing(const std::string& how) {
  const PostgresServer server({.tcp = true});
  const Client client = connect(url_of<Place>(server));
  Lease lease = hold(client, "a");
  end_while_it_waits(server, how, "SELECT 1 FROM holdfast.locks FOR UPDATE", [&] {
    const auto released = lease.release();
    EXPECT_TRUE(released) << released.error().message();
  });
  EXPECT_TRUE(nobody_holds(client, "a"));
}

TEST_F(PostgresServerFaultsTest, ASessionThatEndsInMidStatementLosesNothing) {
  expect_that_an_end_loses_nothing("pg_terminate_backend");
}

// By somebody, or by the statement_timeout that the database sets.
TEST_F(PostgresServerFaultsTest, AStatementThatIsCancelledLosesNothing) {
  expect_that_an_end_loses_nothing("pg_cancel_backend");
}

TEST_F(PostgresServerFaultsTest, AQuestionThatIsCancelledIsAskedAgain) {
  const PostgresServer server({.tcp = true});
  const Client client = connect(url_of<Place>(server));
  Latch latch = client.latch("a", 1);
  end_while_it_waits(server, "pg_cancel_backend",
                     "LOCK TABLE holdfast.extras IN ACCESS EXCLUSIVE MODE", [&] {
                       const auto open = latch.try_wait();
                       ASSERT_TRUE(open) << open.error().message();
                       EXPECT_FALSE(*open);
                     });
}

// The grant is committed here, and waits for a standby that does not exist when its session ends.
TEST_F(PostgresServerFaultsTest, ACommitWhoseOutcomeIsUnknownIsLookedUp) {
  const PostgresServer server({.tcp = true});
  const Client client = connect(url_of<Place>(server), 20s);
  const Token before = [&] {
    Lease first = hold(client, "a");
    expect_released(first);
    return first.token();
  }();
  server.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
  server.sql("SELECT pg_reload_conf()");
  ASSERT_TRUE(
      eventually([&] { return server.sql("SHOW synchronous_standby_names") == "nobody\n"; }));
  auto waiting = std::async(std::launch::async, [&] { return client.mutex("a").try_acquire(); });
  EXPECT_TRUE(eventually([&] {
    return server.sql(
               "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
               "WHERE wait_event = 'SyncRep'") != "0\n";
  }));
  server.sql("ALTER SYSTEM RESET synchronous_standby_names");
  server.sql("SELECT pg_reload_conf()");
  auto got = waiting.get();
  ASSERT_TRUE(got) << got.error().message();
  ASSERT_TRUE(*got) << "it stands in its own way";
  EXPECT_GT((*got)->token(), before);
  EXPECT_EQ(holders_of(client, "a"), 1U);
  expect_released(**got);
  EXPECT_TRUE(nobody_holds(client, "a"));
}

// --- Clients that die.

class PostgresDeaths : public ::testing::TestWithParam<Deaths> {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_POSTGRES(); }
};
TEST_P(PostgresDeaths, WaitersThatDieCostOneLease) {
  const PostgresServer server({.tcp = true});
  expect_that_dead_waiters_cost_one_lease(url_of<Place>(server), GetParam().dead);
}
INSTANTIATE_TEST_SUITE_P(Queue, PostgresDeaths, all_places_of_death(),
                         [](const auto& each) { return each.param.name; });

// --- A replica is promoted.

struct Replicated {
  explicit Replicated(const std::string& clock = {})
      : primary({.tcp = true, .clock_shift_file = clock}),
        way({.server_port = primary.port()}),
        replica({.tcp = true, .follows = way.port()}) {}

  // Both are named: the first that takes writes is used.
  std::string url() const {
    return url_at(at_port(primary.port()) + "," + at_port(replica.port()));
  }
  std::string replica_url() const { return url_of<Place>(replica); }
  bool has(const std::string& lock) const {
    if (replica.sql("SELECT to_regclass('holdfast.locks') IS NOT NULL") != "t\n") return false;
    return replica.sql("SELECT count(*) FROM holdfast.locks WHERE name = '" + lock +
                       "' AND solo_id IS NOT NULL") == "1\n";
  }
  // The replica hears nothing of what the primary grants from now on.
  void part() { way.add({.kind = Fault::Kind::kBlackhole, .direction = Direction::kToClient}); }
  void fail_over() {
    primary.kill9();
    replica.promote();
  }

  PostgresServer primary;
  FaultProxy way;
  PostgresServer replica;
};

TEST_F(PostgresServerFaultsTest, APromotedReplicaKeepsWhatItHeardAndMayGrantTheRestAgain) {
  Replicated servers;
  expect_that_only_the_unknown_is_granted_again(servers);
}

// The bound: the old server's clock ran ahead, so the promoted one gives lower tokens.
TEST_F(PostgresServerFaultsTest, TokensOfAPromotedReplicaAreBoundByTheOldServersClock) {
  ClockShift clock;
  clock.set(1h);
  Replicated servers(clock.path());
  expect_that_tokens_are_bound_by_the_old_clock(servers);
}

}  // namespace
}  // namespace holdfast::faults
