// The lock service with its journal in etcd.
#include <string>

#include "tests/conformance/holdfast_site.h"
#include "tests/differential/differential.h"
#include "tests/support/etcd_server.h"

namespace holdfast::testing {
namespace {

constexpr DifferentialTraits kTraits{
    .one_machine = true, .tombstone = Duration(0), .numbers_are_remembered = true};

// A leader on etcd answers a renewal after a write, of which there are ten a second. So these are a
// few seeds, which need not see every kind of answer. One shard: the model is one machine.
TEST(HoldfastEtcdDifferentialTest, EveryReplyIsTheMachines) {
  support::EtcdCluster etcd;
  TimedHoldfastSite site(etcd.url("/locks?leadership=60s"), /*shards=*/1);
  Client alice(site, "alice");
  Client bob(site, "bob");
  Coverage coverage;
  for (const std::uint64_t seed : differential_seeds(2)) {
    run_differential(site, {&alice, &bob}, kTraits, site.now(), seed, 200, coverage);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace holdfast::testing
