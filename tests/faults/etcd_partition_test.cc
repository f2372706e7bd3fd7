// etcd members that hear nothing of each other.
#include "tests/faults/client_side.h"
#include "tests/faults/partition_cases.h"
#include "tests/support/etcd_server.h"

namespace holdfast::faults {
namespace {

class PartedEtcd : public PartedCluster {
 public:
  support::ServerNetwork& network() override { return etcd_.network(); }
  std::size_t leader() override { return etcd_.leader(); }
  Client connect(const std::vector<std::size_t>& servers, const std::string& session) override {
    return faults::connect(etcd_.url_of(servers, "?session=" + session));
  }
  bool whole() override { return etcd_.healthy(0) && etcd_.healthy(1) && etcd_.healthy(2); }

 private:
  support::EtcdCluster etcd_{{.members = 3, .network = true}};
};

constexpr PartitionSite kEtcd{
    .store = "etcd",
    .needs = [] { HOLDFAST_NEEDS_ETCD(); },
    .make = []() -> std::unique_ptr<PartedCluster> { return std::make_unique<PartedEtcd>(); },
    .short_session = "3s",
    .election = 3s,  // 0.6 to 2.9 s were seen, also when a member comes back.
    // A new leader gives each lease its whole length again, and a second more; it looks for expired
    // ones every half a second.
    .expiry = 3000ms + 1000ms + 500ms};
HOLDFAST_INSTANTIATE_PARTITIONS(Etcd, kEtcd);

}  // namespace
}  // namespace holdfast::faults
