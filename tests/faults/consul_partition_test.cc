// Consul servers that hear nothing of each other.
#include <memory>
#include <string>
#include <vector>

#include "tests/faults/client_side.h"
#include "tests/faults/partition_cases.h"
#include "tests/support/consul_server.h"

namespace holdfast::faults {
namespace {

class PartedConsul : public PartedCluster {
 public:
  support::ServerNetwork& network() override { return servers_.network(); }
  std::size_t leader() override { return servers_.leader(); }
  Client connect(const std::vector<std::size_t>& servers, const std::string& session) override {
    return faults::connect(servers_.url({{"session", session}}, servers));
  }
  // The gossip would try servers that it has given up again within 30 s, one after the other.
  void heal() override {
    servers_.network().heal();
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      const std::string next = servers_.server((i + 1) % servers_.size()).gossip_address();
      servers_.server(i).ask("PUT", "/v1/agent/join/" + next);
    }
  }
  bool whole() override {
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      const auto written = servers_.server(i).ask("PUT", "/v1/kv/whole", "x");
      if (written.body.find("true") == std::string::npos) return false;
    }
    return true;
  }

 private:
  support::ConsulCluster servers_{{.network = true}};
};

constexpr PartitionSite kConsul{
    .store = "consul",
    .needs = [] { HOLDFAST_NEEDS_CONSUL(); },
    .make = []() -> std::unique_ptr<PartedCluster> { return std::make_unique<PartedConsul>(); },
    .short_session = "1s",
    .election = 3s,
    .expiry = 2500ms};  // It keeps a session for twice its length.
HOLDFAST_INSTANTIATE_PARTITIONS(Consul, kConsul);

}  // namespace
}  // namespace holdfast::faults
