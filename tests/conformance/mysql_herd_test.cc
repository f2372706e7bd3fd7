// A thousand waiters on one name: what a release costs the server stays the same, and so does the
// number of connections.
#include <cstdint>
#include <memory>
#include <string>

#include "src/stores/mysql/mysql_store.h"
#include "tests/conformance/herd.h"
#include "tests/support/mariadb_server.h"

namespace holdfast::testing {
namespace {

constexpr std::size_t kClients = 10;

// As the URL makes it, on a server that counts its statements.
class HerdSite final : public Site {
 public:
  Result<std::unique_ptr<port::Store>> open(const port::StoreContext& context) override {
    return stores::make_mysql_store(*port::StoreUrl::parse(server_.url()), context);
  }
  void pass(Duration) override {}

  // Statements that write, of all clients, ever. A poll is none.
  std::int64_t writes() const {
    return ask("SELECT CAST(SUM(variable_value) AS INTEGER) FROM information_schema.global_status"
               " WHERE variable_name IN ('Com_insert', 'Com_insert_select', 'Com_update',"
               " 'Com_update_multi', 'Com_delete')");
  }
  // Selects of all clients, ever. Our own count, too.
  std::int64_t reads() const {
    return ask("SELECT variable_value FROM information_schema.global_status WHERE "
               "variable_name = 'Com_select'");
  }
  std::int64_t connections() const {
    return ask("SELECT COUNT(*) FROM information_schema.processlist WHERE db = 'test' AND "
               "id <> CONNECTION_ID()");
  }

 private:
  std::int64_t ask(const std::string& question) const { return std::stoll(server_.sql(question)); }

  const support::MariadbServer server_;
};

TEST(MysqlHerd, StatementsOfAReleaseAndConnectionsDoNotGrowWithTheQueue) {
  HOLDFAST_NEEDS_MARIADB();
  HerdSite site;
  Herd herd(site, kClients, [&] { return site.writes(); });
  herd.expect_constant_cost("writing_statements", 6, [&] {
    EXPECT_LE(site.connections(), 2 * static_cast<std::int64_t>(kClients));
    // However many wait, a client asks with one statement, at most each 20 ms.
    const auto begun = base::BootClock::now();
    const std::int64_t before = site.reads();
    std::this_thread::sleep_for(std::chrono::seconds(2));
    const std::int64_t polls = site.reads() - before;
    const std::chrono::duration<double> passed = base::BootClock::now() - begun;
    Herd::note("polls_per_second_of_ten_clients", static_cast<std::int64_t>(
                                                      static_cast<double>(polls) / passed.count()));
    EXPECT_LE(static_cast<double>(polls) / passed.count(), 50.0 * kClients);
  });
}

}  // namespace
}  // namespace holdfast::testing
