// One ZooKeeper, and a chroot of its own for each case.
#include "tests/records/server_place.h"
#include "tests/support/zookeeper_server.h"

namespace holdfast::testing {

std::vector<std::string> stores_under_test() { return {"zookeeper"}; }

std::unique_ptr<Place> make_place(const std::string&) {
  static support::ZookeeperServer server;
  return place_on(server, server.url("/" + next_name()),
                  {.await_restart = [] { server.await_serving(); }});
}

std::string no_place_because() { return support::ZookeeperServer::unavailable().value_or(""); }

}  // namespace holdfast::testing
