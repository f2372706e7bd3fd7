#include "tests/conformance/memory_site.h"
#include "tests/differential/differential.h"

namespace holdfast::testing {
namespace {

TEST(MemoryDifferentialTest, EveryReplyIsTheMachines) {
  MemorySite site;
  Client alice(site, "alice");
  Client bob(site, "bob");
  const DifferentialTraits traits{
      .one_machine = true, .inspect_passes_time = true, .tombstone = Duration(1s)};
  Coverage coverage;
  for (const std::uint64_t seed : differential_seeds(200)) {
    run_differential(site, {&alice, &bob}, traits, site.now(), seed, 200, coverage);
    if (HasFailure()) return;
  }
  expect_all_kinds_of_answers(coverage);
}

}  // namespace
}  // namespace holdfast::testing
