#include "src/stores/etcd/etcd_store.h"
#include "tests/conformance/server_site.h"
#include "tests/support/etcd_server.h"

namespace holdfast::testing {
namespace {

support::EtcdCluster& server() {
  static support::EtcdCluster one;
  return one;
}

constexpr OneServer kServer{
    [](const std::string& place) { return server().url("/" + place + "?session=3s"); },
    &stores::make_etcd_store,
    [] {
      server().terminate();
      server().start();
    }};

const StoreUnderTest kEtcd{&ServerSite<kServer>::make, &ServerSite<kServer>::make,
                           &support::EtcdCluster::unavailable};

}  // namespace

HOLDFAST_INSTANTIATE_CONFORMANCE(Etcd, kEtcd);

}  // namespace holdfast::testing
