// One PostgreSQL that syncs, and a schema of its own for each case.
#include "tests/records/server_place.h"
#include "tests/support/postgres_server.h"

namespace holdfast::testing {

std::vector<std::string> stores_under_test() { return {"postgres"}; }

std::unique_ptr<Place> make_place(const std::string&) {
  static support::PostgresServer server(
      {.settings = {"fsync=on", "full_page_writes=on", "max_connections=300"}});
  return place_on(server, server.url("schema=" + next_name()), {.has_clock = true});
}

std::string no_place_because() { return support::PostgresServer::unavailable().value_or(""); }

}  // namespace holdfast::testing
