#include <string>

#include "tests/conformance/harness.h"
#include "tests/conformance/mysql_site.h"
#include "tests/conformance/sql_steps.h"

namespace holdfast::testing {
namespace {

// As the URL makes it.
class LiveMysqlSite final : public Site {
 public:
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    return stores::make_mysql_store(*port::StoreUrl::parse(url_), context);
  }
  void pass(Duration time) override { std::this_thread::sleep_for(time); }
  void restart() override {
    mariadb_server().kill9();
    mariadb_server().start();
  }
  bool tells_broken_holders() const override { return false; }

 private:
  static inline std::atomic<int> last_{0};
  const std::string url_ = mariadb_server().url("prefix=live_" + std::to_string(++last_));
};

const StoreUnderTest kMysql{[] { return std::make_unique<MysqlSite>(); },
                            [] { return std::make_unique<LiveMysqlSite>(); },
                            &support::MariadbServer::unavailable};

TEST(MysqlStepsTest, QueuesOfManyLocksShareTheirCommits) {
  HOLDFAST_NEEDS_MARIADB();
  LiveMysqlSite site;
  expect_shared_commits(site, [] {
    return std::stoll(mariadb_server().sql(
        "SELECT variable_value FROM information_schema.global_status"
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
