#include "tests/conformance/redis_site.h"
#include "tests/differential/differential.h"

namespace holdfast::testing {
namespace {

constexpr DifferentialTraits kTraits{.one_machine = false,
                                     .inspect_passes_time = false,
                                     .tombstone = Duration(0),
                                     .numbers_are_remembered = true,
                                     .late_release_counts = true};

// The scripts restate the machine; this is what keeps them equal.
TEST(RedisDifferentialTest, EveryReplyIsTheMachines) {
  HOLDFAST_NEEDS_REDIS();
  RedisSite site;
  Client alice(site, "alice");
  Client bob(site, "bob");
  Coverage coverage;
  for (const std::uint64_t seed : differential_seeds(80)) {
    run_differential(site, {&alice, &bob}, kTraits, site.now(), seed, 200, coverage);
    if (::testing::Test::HasFailure()) return;
  }
  expect_all_kinds_of_answers(coverage);
}

}  // namespace
}  // namespace holdfast::testing
