// One MariaDB that syncs, and tables of its own for each case.
#include "tests/records/server_place.h"
#include "tests/support/mariadb_server.h"

namespace holdfast::testing {

std::vector<std::string> stores_under_test() { return {"mysql"}; }

std::unique_ptr<Place> make_place(const std::string&) {
  static support::MariadbServer server(
      {.settings = {"--innodb-flush-log-at-trx-commit=1", "--max-connections=300"}});
  return place_on(server, server.url("prefix=" + next_name() + "_"), {.has_clock = true});
}

std::string no_place_because() { return support::MariadbServer::unavailable().value_or(""); }

}  // namespace holdfast::testing
