// The lock service with its journal in an etcd of its own: a restart is a change of the leader.
#include <atomic>
#include <string>

#include "tests/conformance/harness.h"
#include "tests/conformance/holdfast_site.h"
#include "tests/support/etcd_server.h"

namespace holdfast::testing {
namespace {

// Each site has a journal of its own.
std::string fresh_journal() {
  static support::EtcdCluster etcd;
  static std::atomic<int> made{0};
  return etcd.url("/" + std::to_string(++made) + "?leadership=5s");
}

const StoreUnderTest kHoldfastOnEtcd{
    [] { return std::make_unique<TimedHoldfastSite>(fresh_journal(), 1); },
    [] { return std::make_unique<HoldfastSite>(server::ServerTuning{}, fresh_journal(), 1); },
    &support::EtcdCluster::unavailable};

constexpr std::uint32_t kShards = 0;  // As many as a new journal gets by itself: eight.
const StoreUnderTest kHoldfastInShards{
    [] { return std::make_unique<TimedHoldfastSite>(fresh_journal(), kShards); },
    [] { return std::make_unique<HoldfastSite>(server::ServerTuning{}, fresh_journal(), kShards); },
    &support::EtcdCluster::unavailable};

}  // namespace

HOLDFAST_INSTANTIATE_CONFORMANCE(HoldfastOnEtcd, kHoldfastOnEtcd);
HOLDFAST_INSTANTIATE_CONFORMANCE(HoldfastInShards, kHoldfastInShards);

}  // namespace holdfast::testing
