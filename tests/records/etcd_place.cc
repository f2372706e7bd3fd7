// One etcd, and a prefix of its own for each case.
#include "tests/records/server_place.h"
#include "tests/support/etcd_server.h"

namespace holdfast::testing {

std::vector<std::string> stores_under_test() { return {"etcd"}; }

std::unique_ptr<Place> make_place(const std::string&) {
  static support::EtcdCluster server;
  return place_on(server, server.url("/" + next_name()),
                  {.await_restart = [] { server.await_health(); }});
}

std::string no_place_because() { return support::EtcdCluster::unavailable().value_or(""); }

}  // namespace holdfast::testing
