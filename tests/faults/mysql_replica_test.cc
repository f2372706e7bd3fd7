// An asynchronous replica of MariaDB is promoted: what it has heard stays, and the rest is granted
// again, as the store's page declares.
#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "tests/faults/client_side.h"
#include "tests/support/clock_shift.h"
#include "tests/support/eventually.h"
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

  bool replica_has(const std::string& lock) const {
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

  static Lease hold(const Client& client, const std::string& name, milliseconds ttl = 30s) {
    auto lease = client.mutex(name).acquire({.wait = kLong, .ttl = ttl});
    if (!lease) throw std::runtime_error(lease.error().message());
    return *std::move(lease);
  }

 private:
  static std::string at(const support::MariadbServer& server) {
    return "127.0.0.1:" + std::to_string(server.port());
  }
  static std::string url_at(const std::string& hosts) {
    return "mysql://root@" + hosts + "/test?connect_timeout=500ms";
  }

  support::MariadbServer primary_;
  support::FaultProxy way_;
  support::MariadbServer replica_;
};

void expect_that_only_the_unknown_is_granted_again(const std::string& format) {
  ReplicatedMariadb servers(format);
  const Client one = connect(servers.url());
  Lease known = ReplicatedMariadb::hold(one, "known");
  ASSERT_TRUE(support::eventually([&] { return servers.replica_has("known"); }));
  const auto refused = Client::connect(servers.replica_url());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("only reads"), std::string::npos)
      << refused.error().message();

  servers.part();
  Lease unknown = ReplicatedMariadb::hold(one, "unknown", 6s);
  servers.fail_over();
  const Client two = connect(servers.url());
  EXPECT_FALSE(*two.mutex("known").try_acquire());
  Lease next = ReplicatedMariadb::hold(two, "unknown");
  // The declared cell: the first one believes until its next renewal.
  EXPECT_GT(next.token(), unknown.token());
  EXPECT_TRUE(support::eventually([&] { return known.renew().has_value(); }));
  EXPECT_TRUE(fires(unknown.lost(), 20s));
  EXPECT_FALSE(unknown.release());
  EXPECT_TRUE(next.renew());
  EXPECT_TRUE(known.release());
}

TEST_F(MysqlReplicaTest, APromotedReplicaKeepsWhatItHeardAndMayGrantTheRestAgain) {
  expect_that_only_the_unknown_is_granted_again("MIXED");
}

TEST_F(MysqlReplicaTest, WhereRowsAreReplicatedItIsTheSame) {
  expect_that_only_the_unknown_is_granted_again("ROW");
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
  const Client one = connect(servers.url());
  const Lease warm = ReplicatedMariadb::hold(one, "known");
  ASSERT_TRUE(support::eventually([&] { return servers.replica_has("known"); }));
  servers.part();
  const Lease unknown = ReplicatedMariadb::hold(one, "unknown");
  servers.fail_over();
  const Client two = connect(servers.url());
  EXPECT_LT(ReplicatedMariadb::hold(two, "unknown").token(), unknown.token())
      << "no bound: say so";
  // A lock whose row is there grows on, whatever the clock says.
  const auto broken = two.break_lock("known", warm.token());
  ASSERT_TRUE(broken) << broken.error().message();
  EXPECT_GT(ReplicatedMariadb::hold(two, "known").token(), warm.token());
}

}  // namespace
}  // namespace holdfast::faults
