// An asynchronous replica of MariaDB is promoted: what it has heard stays, and the rest is granted
// again, as the store's page declares.
#include <string>

#include <gtest/gtest.h>

#include "tests/faults/sql_replica.h"
#include "tests/support/clock_shift.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/mariadb_server.h"

namespace holdfast::faults {
namespace {

class MysqlReplicaTest : public ::testing::Test {
 protected:
  void SetUp() override { HOLDFAST_NEEDS_MARIADB(); }
};

class ReplicatedMariadb {
 public:
  // `format`: the server's setting for what it writes to the log that the replica reads.
  explicit ReplicatedMariadb(const std::string& format, const std::string& clock = {})
      : primary_({.tcp = true,
                  .settings = {"--log-bin=binlog", "--server-id=1", "--binlog-format=" + format},
                  .clock_shift_file = clock}),
        way_({.server_port = primary_.port()}),
        replica_({.tcp = true, .follows = way_.port()}) {}

  // Both are named: the first that takes writes is used.
  std::string url() const { return url_at(at(primary_) + "," + at(replica_)); }
  std::string replica_url() const { return url_at(at(replica_)); }

  bool has(const std::string& lock) const {
    const std::string tables =
        "SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'holdfast_locks'";
    if (replica_.sql(tables) != "1\n") return false;
    return replica_.sql("SELECT COUNT(*) FROM holdfast_locks WHERE name = '" + lock +
                        "' AND solo_id IS NOT NULL") == "1\n";
  }
  // The replica hears nothing of what the primary grants from now on.
  void part() {
    way_.add({.kind = support::Fault::Kind::kBlackhole,
              .direction = support::Direction::kToClient});
  }
  void fail_over() {
    primary_.kill9();
    replica_.promote();
  }

 private:
  static std::string at(const support::MariadbServer& server) { return at_port(server.port()); }
  static std::string url_at(const std::string& hosts) {
    return "mysql://root@" + hosts + "/test?connect_timeout=500ms";
  }

  support::MariadbServer primary_;
  support::FaultProxy way_;
  support::MariadbServer replica_;
};

TEST_F(MysqlReplicaTest, APromotedReplicaKeepsWhatItHeardAndMayGrantTheRestAgain) {
  ReplicatedMariadb servers("MIXED");
  expect_that_only_the_unknown_is_granted_again(servers);
}

TEST_F(MysqlReplicaTest, WhereRowsAreReplicatedItIsTheSame) {
  ReplicatedMariadb servers("ROW");
  expect_that_only_the_unknown_is_granted_again(servers);
}

TEST_F(MysqlReplicaTest, AServerThatLogsStatementsAloneIsRefusedByName) {
  const support::MariadbServer server(
      {.settings = {"--log-bin=binlog", "--server-id=1", "--binlog-format=STATEMENT"}});
  const auto refused = Client::connect(server.url());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::kUnavailable);
  EXPECT_NE(refused.error().message().find("BINLOG_FORMAT = STATEMENT"), std::string::npos)
      << refused.error().message();
}

// The bound: the old server's clock ran ahead, so the promoted one gives lower tokens.
TEST_F(MysqlReplicaTest, TokensOfAPromotedReplicaAreBoundByTheOldServersClock) {
  support::ClockShift clock;
  clock.set(1h);
  ReplicatedMariadb servers("MIXED", clock.path());
  expect_that_tokens_are_bound_by_the_old_clock(servers);
}

}  // namespace
}  // namespace holdfast::faults
