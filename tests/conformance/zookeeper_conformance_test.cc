#include "src/stores/zookeeper/zookeeper_store.h"
#include "tests/conformance/server_site.h"
#include "tests/support/zookeeper_server.h"

namespace holdfast::testing {
namespace {

support::ZookeeperServer& server() {
  static support::ZookeeperServer one;
  return one;
}

constexpr OneServer kServer{
    [](const std::string& place) { return server().url("/" + place + "?session=4s"); },
    &stores::make_zookeeper_store,
    [] {
      server().kill9();
      server().start();
      server().await_serving();
    }};

const StoreUnderTest kZookeeper{&ServerSite<kServer>::make, &ServerSite<kServer>::make,
                                &support::ZookeeperServer::unavailable};

}  // namespace

HOLDFAST_INSTANTIATE_CONFORMANCE(Zookeeper, kZookeeper);

}  // namespace holdfast::testing
