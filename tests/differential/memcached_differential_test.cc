#include "tests/conformance/memcached_site.h"
#include "tests/differential/differential.h"

namespace holdfast::testing {
namespace {

// A command lets time pass for its own lock only, and inspect writes nothing.
constexpr DifferentialTraits kTraits{.one_machine = false,
                                     .inspect_passes_time = false,
                                     .tombstone = Duration(0),
                                     .client_remembers_ends = true,
                                     .looking_passes_time = false,
                                     .renews_at_once = true,
                                     .multi = false};

// Two clients, each of which has seen the leases of both (MemcachedSite): what one client alone
// would see later is not the machine's affair, and the tests of faults measure it.
TEST(MemcachedDifferentialTest, EveryReplyIsTheMachines) {
  HOLDFAST_NEEDS_MEMCACHED();
  MemcachedSite site;
  Client alice(site, "alice");
  Client bob(site, "bob");
  Coverage coverage;
  const auto seeds = differential_seeds(100);
  for (const std::uint64_t seed : seeds) {
    run_differential(site, {&alice, &bob}, kTraits, site.now(), seed, 200, coverage);
    if (::testing::Test::HasFailure()) return;
  }
  if (seeds.size() >= 100) expect_all_kinds_of_answers(coverage, kTraits);
}

}  // namespace
}  // namespace holdfast::testing
