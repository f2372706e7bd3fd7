#include <string>

#include "tests/conformance/harness.h"
#include "tests/conformance/postgres_site.h"
#include "tests/conformance/sql_steps.h"

namespace holdfast::testing {
namespace {

// As the URL makes it.
class LivePostgresSite final : public Site {
 public:
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    return stores::make_postgres_store(*port::StoreUrl::parse(url_), context);
  }
  void pass(Duration time) override { std::this_thread::sleep_for(time); }
  void restart() override {
    postgres_server().kill9();
    postgres_server().start();
  }

 private:
  static inline std::atomic<int> last_{0};
  const std::string url_ = postgres_server().url("schema=live_" + std::to_string(++last_));
};

const StoreUnderTest kPostgres{[] { return std::make_unique<PostgresSite>(); },
                               [] { return std::make_unique<LivePostgresSite>(); },
                               &support::PostgresServer::unavailable};

TEST(PostgresStepsTest, QueuesOfManyLocksShareTheirCommits) {
  HOLDFAST_NEEDS_POSTGRES();
  LivePostgresSite site;
  expect_shared_commits(
      site, [] { return std::stoll(postgres_server().sql("SELECT txid_current()")); });
}

TEST(PostgresStepsTest, ALockThatOthersChangedHoldsUpNoOther) {
  HOLDFAST_NEEDS_POSTGRES();
  LivePostgresSite site;
  expect_no_hold_up(site);
}

}  // namespace

HOLDFAST_INSTANTIATE_CONFORMANCE(Postgres, kPostgres);

}  // namespace holdfast::testing
