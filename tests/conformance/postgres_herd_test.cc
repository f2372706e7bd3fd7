// A thousand waiters on one name: what a release costs the server stays the same, and so does the
// number of connections. Many locks: one statement renews them.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/stores/postgres/postgres_store.h"
#include "tests/conformance/herd.h"
#include "tests/support/postgres_server.h"

namespace holdfast::testing {
namespace {

constexpr std::size_t kClients = 10;

// As the URL makes it, on a server that counts its statements.
class HerdSite final : public Site {
 public:
  HerdSite() { server_.sql("CREATE EXTENSION pg_stat_statements"); }

  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    return stores::make_postgres_store(*port::StoreUrl::parse(server_.url()), context);
  }
  void pass(Duration) override {}

  // All statements of the clients so far; each notification is sent by one.
  std::int64_t statements() const {
    return ask("SELECT sum(calls) FROM pg_stat_statements WHERE query LIKE '%\"holdfast\".%'");
  }
  std::int64_t connections() const {
    return ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'holdfast'");
  }

 private:
  std::int64_t ask(const std::string& question) const { return std::stoll(server_.sql(question)); }

  const support::PostgresServer server_{
      {.settings = {"shared_preload_libraries=pg_stat_statements"}}};
};

TEST(PostgresHerd, StatementsOfAReleaseAndConnectionsDoNotGrowWithTheQueue) {
  HOLDFAST_NEEDS_POSTGRES();
  HerdSite site;
  Herd herd(site, kClients, [&] { return site.statements(); });
  // One statement releases, grants to the next one and notifies its client.
  herd.expect_constant_cost("statements", 1, [&] {
    EXPECT_LE(site.connections(), 3 * static_cast<std::int64_t>(kClients));
  });
}

TEST(PostgresHerd, ThousandsOfLocksAreRenewedByOneStatement) {
  HOLDFAST_NEEDS_POSTGRES();
  constexpr std::uint64_t kLocks = 1500;
  HerdSite site;
  Client client(site, "alice");
  std::vector<port::RenewItem> items;
  for (std::uint64_t i = 1; i <= kLocks; ++i) {
    const std::string name = "lock" + std::to_string(i);
    const auto grant = client.acquire(Request(name, {7, i}).leases(1h, 1h));
    ASSERT_TRUE(grant) << grant.error().message();
    items.push_back({name, {7, i}, 1, 2h, 2h, grant->token});
  }
  const std::int64_t before = site.statements();
  const auto renewed = client.renew(items);
  EXPECT_EQ(site.statements() - before, 1);
  ASSERT_TRUE(renewed) << renewed.error().message();
  for (const auto& one : *renewed) {
    ASSERT_TRUE(one) << one.error().message();
    EXPECT_EQ(one->status, AcquisitionStatus::kHeld);
  }
}

}  // namespace
}  // namespace holdfast::testing
