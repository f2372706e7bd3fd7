#include "src/stores/consul/consul_store.h"
#include "tests/conformance/server_site.h"
#include "tests/differential/differential.h"
#include "tests/support/consul_server.h"

namespace holdfast::testing {
namespace {

support::ConsulServer& server() {
  static support::ConsulServer one;
  return one;
}

constexpr OneServer kServer{[](const std::string& place) {
                              return "consul://127.0.0.1:" + std::to_string(server().port()) + "/" +
                                     place + "?session=30s";
                            },
                            &stores::make_consul_store, nullptr};

TEST(ConsulDifferentialTest, EveryReplyIsTheMachines) {
  HOLDFAST_NEEDS_CONSUL();
  ServerSite<kServer> site;
  compare_session_store(site, 10);
}

}  // namespace
}  // namespace holdfast::testing
