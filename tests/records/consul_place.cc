// One Consul, and a prefix of its own for each case.
#include "tests/records/server_place.h"
#include "tests/support/consul_server.h"

namespace holdfast::testing {

std::vector<std::string> stores_under_test() { return {"consul"}; }

std::unique_ptr<Place> make_place(const std::string&) {
  static support::ConsulServer server;
  return place_on(server,
                  "consul://127.0.0.1:" + std::to_string(server.port()) + "/" + next_name());
}

std::string no_place_because() { return support::ConsulServer::unavailable().value_or(""); }

}  // namespace holdfast::testing
