#include "tests/conformance/mysql_site.h"
#include "tests/differential/differential.h"

namespace holdfast::testing {
namespace {

// A command lets time pass for its own lock only, and inspect writes nothing.
constexpr DifferentialTraits kTraits{.one_machine = false,
                                     .inspect_passes_time = false,
                                     .tombstone = Duration(0),
                                     .client_remembers_ends = true,
                                     .looking_passes_time = false,
                                     .renews_at_once = true};

void compare_with_the_machine(bool fast_path, std::uint64_t seeds) {
  MysqlSite site(fast_path);
  Client alice(site, "alice");
  Client bob(site, "bob");
  Coverage coverage;
  for (const std::uint64_t seed : differential_seeds(seeds)) {
    run_differential(site, {&alice, &bob}, kTraits, site.now(), seed, 200, coverage);
    if (::testing::Test::HasFailure()) return;
  }
  if (seeds >= 100) expect_all_kinds_of_answers(coverage);
}

// The statements that restate the machine for uncontended locks, and the machine for the others.
TEST(MysqlDifferentialTest, EveryReplyIsTheMachines) {
  HOLDFAST_NEEDS_MARIADB();
  compare_with_the_machine(true, 100);
}

TEST(MysqlDifferentialTest, EveryReplyIsTheMachinesWithoutTheFastPath) {
  HOLDFAST_NEEDS_MARIADB();
  compare_with_the_machine(false, 30);
}

}  // namespace
}  // namespace holdfast::testing
