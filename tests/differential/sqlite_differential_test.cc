#include "tests/conformance/sqlite_site.h"
#include "tests/differential/differential.h"

namespace holdfast::testing {
namespace {

// A command lets time pass for its own lock only, and inspect writes nothing.
constexpr DifferentialTraits kTraits{.one_machine = false,
                                     .inspect_passes_time = false,
                                     .tombstone = Duration(0),
                                     .client_remembers_ends = true,
                                     .looking_passes_time = false};

void compare_with_the_machine(bool fast_path, std::size_t reach, std::uint64_t seeds) {
  SqliteSite site(fast_path, reach);
  Client alice(site, "alice");
  Client bob(site, "bob");
  Coverage coverage;
  for (const std::uint64_t seed : differential_seeds(seeds)) {
    run_differential(site, {&alice, &bob}, kTraits, site.now(), seed, 200, coverage);
    if (::testing::Test::HasFailure()) return;
  }
  expect_all_kinds_of_answers(coverage);
}

// The statements that restate the machine for uncontended locks, and the machine for the others.
TEST(SqliteDifferentialTest, EveryReplyIsTheMachines) {
  compare_with_the_machine(true, stores::SqliteTuning().reach, 200);
}

TEST(SqliteDifferentialTest, EveryReplyIsTheMachinesWithoutTheFastPath) {
  compare_with_the_machine(false, stores::SqliteTuning().reach, 100);
}

// So few that most queues are longer than what is loaded of them.
TEST(SqliteDifferentialTest, EveryReplyIsTheMachinesWithOneWaiterLoaded) {
  compare_with_the_machine(true, 1, 100);
}

TEST(SqliteDifferentialTest, EveryReplyIsTheMachinesWithTwoWaitersLoaded) {
  compare_with_the_machine(false, 2, 100);
}

}  // namespace
}  // namespace holdfast::testing
