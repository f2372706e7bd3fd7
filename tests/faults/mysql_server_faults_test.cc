// Faults of a real MariaDB server and of the network before it, seen through the public library.
#include <array>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/faults/dead_waiters.h"
#include "tests/faults/sql_server_suite.h"
#include "tests/support/mariadb_server.h"

namespace holdfast::faults {
namespace {

using support::MariadbServer;

std::string url_at(const std::string& hosts) {
  return "mysql://root@" + hosts + "/test?connect_timeout=500ms";
}

struct Place {
  using Server = MariadbServer;
  using Started = std::unique_ptr<Server>;

  static void need() { HOLDFAST_NEEDS_MARIADB(); }
  static Started start(std::vector<std::string> settings = {}) {
    return started({.tcp = true, .settings = std::move(settings)});
  }
  static Started start_with_clock(const std::string& shift_file) {
    return started({.tcp = true, .clock_shift_file = shift_file});
  }
  static Started start_with_tls(const support::KeyPair& files) {
    return start({"--ssl-cert=" + files.certificate, "--ssl-key=" + files.key});
  }
  static Started start_without_tls() { return start({"--skip-ssl"}); }
  static std::vector<std::string> crowd_settings() { return {"--max-connections=200"}; }
  static std::string url_at(const std::string& host) { return faults::url_at(host); }
  static std::string tls_url_at(const std::string& host) {
    return "mysqls://root@" + host + "/test";
  }
  static constexpr std::array kNamedOfAWrongHost = {std::string_view("127.0.0.1")};

 private:
  static Started started(support::MariadbOptions options) {
    return std::make_unique<Server>(std::move(options));
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(OnMariadb, SqlServerTest, Place);
INSTANTIATE_TYPED_TEST_SUITE_P(OnMariadb, SqlClockTest, Place);

class MysqlServerFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_MARIADB(); }
};

// --- A statement that ends in the middle.

// Another session has the lock's row, so the client's statement waits for it, and is ended.
void expect_that_an_end_loses_nothing(const std::string& how) {
  const MariadbServer server({.tcp = true});
  const Client client = connect(url_of<Place>(server));
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
  proxy.reset_all();  // Before the answer that is held would go on.
  proxy.remove_all();
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

class MysqlDeaths : public ::testing::TestWithParam<Deaths> {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_MARIADB(); }
};
TEST_P(MysqlDeaths, WaitersThatDieCostOneLease) {
  const MariadbServer server({.tcp = true});
  expect_that_dead_waiters_cost_one_lease(url_of<Place>(server), GetParam().dead);
}
INSTANTIATE_TEST_SUITE_P(Queue, MysqlDeaths, all_places_of_death(),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace holdfast::faults
