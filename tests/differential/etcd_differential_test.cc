#include "src/stores/etcd/etcd_store.h"
#include "tests/conformance/server_site.h"
#include "tests/differential/differential.h"
#include "tests/support/etcd_server.h"

namespace holdfast::testing {
namespace {

support::EtcdCluster& server() {
  static support::EtcdCluster one;
  return one;
}

constexpr OneServer kServer{
    [](const std::string& place) { return server().url("/" + place + "?session=30s"); },
    &stores::make_etcd_store, nullptr};

TEST(EtcdDifferentialTest, EveryReplyIsTheMachines) {
  HOLDFAST_NEEDS_ETCD();
  ServerSite<kServer> site;
  compare_session_store(site, 10);
}

}  // namespace
}  // namespace holdfast::testing
