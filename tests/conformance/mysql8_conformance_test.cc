// The store on MySQL itself, where a server of it can be had.
#include <memory>

#include "tests/conformance/harness.h"
#include "tests/conformance/mysql_site.h"

namespace holdfast::testing {
namespace {

support::MariadbServer& mysql_server() {
  static support::MariadbServer one(
      {.mysql = true, .settings = {"--innodb-flush-log-at-trx-commit=1"}});
  return one;
}

const StoreUnderTest kMysql8{
    [] { return std::make_unique<MysqlSite>(/*fast_path=*/true, mysql_server()); },
    [] { return std::make_unique<LiveMysqlSite>(mysql_server()); },
    &support::MariadbServer::mysql_unavailable};

}  // namespace

HOLDFAST_INSTANTIATE_CONFORMANCE(Mysql8, kMysql8);

}  // namespace holdfast::testing
