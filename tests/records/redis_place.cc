// One Redis that syncs each change, and a key space of its own for each case.
#include "tests/records/server_place.h"
#include "tests/support/redis_server.h"

namespace holdfast::testing {

std::vector<std::string> stores_under_test() { return {"redis"}; }

std::unique_ptr<Place> make_place(const std::string&) {
  static support::RedisServer server({.appendonly = true});
  server.flushall();
  return place_on(server, server.url(),
                  {.has_clock = true, .forgets = "a fail-over may forget it"});
}

std::string no_place_because() { return support::RedisServer::unavailable().value_or(""); }

}  // namespace holdfast::testing
