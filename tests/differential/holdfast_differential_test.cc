#include "tests/conformance/holdfast_site.h"
#include "tests/differential/differential.h"

namespace holdfast::testing {
namespace {

constexpr DifferentialTraits kTraits{.one_machine = true,
                                     .tombstone = Duration(0),
                                     .numbers_are_remembered = true};

// The wire and the journal must add nothing to what the machine answers, and leave nothing out.
TEST(HoldfastDifferentialTest, EveryReplyIsTheMachines) {
  TimedHoldfastSite site;
  Client alice(site, "alice");
  Client bob(site, "bob");
  Coverage coverage;
  for (const std::uint64_t seed : differential_seeds(200)) {
    run_differential(site, {&alice, &bob}, kTraits, site.now(), seed, 200, coverage);
    if (::testing::Test::HasFailure()) return;
  }
  expect_all_kinds_of_answers(coverage);
}

}  // namespace
}  // namespace holdfast::testing
