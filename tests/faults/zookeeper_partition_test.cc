// ZooKeeper servers that hear nothing of each other.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/faults/client_side.h"
#include "tests/faults/partition_cases.h"
#include "tests/support/zookeeper_server.h"

namespace holdfast::faults {
namespace {

class PartedZookeeper : public PartedCluster {
 public:
  support::ServerNetwork& network() override { return servers_.network(); }
  std::size_t leader() override { return servers_.leader().value(); }
  // The library tries servers in an order of its own.
  Client connect(const std::vector<std::size_t>& servers, const std::string& session) override {
    const std::string url = "zookeeper://" + servers_.servers(servers) + "?session=" + session;
    while (true) {
      const std::size_t before = sessions_at(servers.front());
      Client client = faults::connect(url);
      static_cast<void>(hold(client, "connected"));
      if (sessions_at(servers.front()) > before) return client;
    }
  }
  bool whole() override {
    std::size_t leaders = 0;
    std::size_t followers = 0;
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      const std::string answer = servers_.ask("srvr", i);
      if (answer.find("Mode: leader") != std::string::npos) ++leaders;
      if (answer.find("Mode: follower") != std::string::npos) ++followers;
    }
    return leaders == 1 && followers == servers_.size() - 1;
  }

 private:
  std::size_t sessions_at(std::size_t server) const {
    const std::string connections = servers_.ask("cons", server);
    std::size_t many = 0;
    for (auto at = connections.find("sid="); at != std::string::npos;
         at = connections.find("sid=", at + 1)) {
      ++many;
    }
    return many;
  }

  support::ZookeeperServer servers_{{.members = 3, .tick = 200ms, .network = true}};
};

constexpr PartitionSite kZookeeper{
    .store = "zookeeper",
    .needs = [] { HOLDFAST_NEEDS_ZOOKEEPER(); },
    .make = []() -> std::unique_ptr<PartedCluster> { return std::make_unique<PartedZookeeper>(); },
    .short_session = "3s",
    .election = 5s,
    .expiry = 3500ms};
HOLDFAST_INSTANTIATE_PARTITIONS(Zookeeper, kZookeeper);

}  // namespace
}  // namespace holdfast::faults
