#include "src/stores/consul/consul_store.h"
#include "tests/conformance/server_site.h"
#include "tests/support/consul_server.h"

namespace holdfast::testing {
namespace {

support::ConsulServer& server() {
  static support::ConsulServer one;
  return one;
}

constexpr OneServer kServer{[](const std::string& place) {
                              return "consul://127.0.0.1:" + std::to_string(server().port()) + "/" +
                                     place + "?session=5s";
                            },
                            &stores::make_consul_store,
                            [] {
                              server().terminate();
                              server().start();
                            }};

const StoreUnderTest kConsul{&ServerSite<kServer>::make, &ServerSite<kServer>::make,
                             &support::ConsulServer::unavailable};

}  // namespace

HOLDFAST_INSTANTIATE_CONFORMANCE(Consul, kConsul);

}  // namespace holdfast::testing
