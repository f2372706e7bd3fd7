#include <string>

#include "tests/conformance/harness.h"
#include "tests/conformance/mysql_site.h"
#include "tests/conformance/sql_steps.h"

namespace holdfast::testing {
namespace {

const StoreUnderTest kMysql{[] { return std::make_unique<MysqlSite>(); },
                            [] { return std::make_unique<LiveMysqlSite>(); },
                            &support::MariadbServer::unavailable};

TEST(MysqlStepsTest, QueuesOfManyLocksShareTheirCommits) {
  HOLDFAST_NEEDS_MARIADB();
  LiveMysqlSite site;
  expect_shared_commits(site, [] {
    return std::stoll(
        mariadb_server().sql("SELECT variable_value FROM information_schema.global_status"
                             " WHERE variable_name = 'Com_commit'"));
  });
}

TEST(MysqlStepsTest, ALockThatOthersChangedHoldsUpNoOther) {
  HOLDFAST_NEEDS_MARIADB();
  LiveMysqlSite site;
  expect_no_hold_up(site);
}

}  // namespace

HOLDFAST_INSTANTIATE_CONFORMANCE(Mysql, kMysql);

}  // namespace holdfast::testing
