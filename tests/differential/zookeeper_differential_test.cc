#include "src/stores/zookeeper/zookeeper_store.h"
#include "tests/conformance/server_site.h"
#include "tests/differential/differential.h"
#include "tests/support/zookeeper_server.h"

namespace holdfast::testing {
namespace {

support::ZookeeperServer& server() {
  static support::ZookeeperServer one;
  return one;
}

constexpr OneServer kServer{
    [](const std::string& place) { return server().url("/" + place + "?session=30s"); },
    &stores::make_zookeeper_store, nullptr};

TEST(ZookeeperDifferentialTest, EveryReplyIsTheMachines) {
  HOLDFAST_NEEDS_ZOOKEEPER();
  ServerSite<kServer> site;
  compare_session_store(site, 10);
}

}  // namespace
}  // namespace holdfast::testing
