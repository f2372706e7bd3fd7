// Thousands of worlds, each from one seed (testing/world.h says what is checked in them).
//
// HOLDFAST_SIM_SEEDS=100000 runs more of them; HOLDFAST_SIM_SEED=n replays one.
#include <cstdint>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "src/machine/testing/replay_note.h"
#include "src/machine/testing/world.h"

namespace holdfast::machine::testing {
namespace {

constexpr int kSteps = 120;

void run(std::uint64_t seed) {
  const std::string replay =
      "replay: HOLDFAST_SIM_SEED=" + std::to_string(seed) + " ctest -R lock_machine_sim";
  const ReplayNote note(replay);
  EXPECT_EQ(World(seed).run(kSteps), "") << replay;
}

TEST(LockMachineSim, EveryWorldKeepsEveryPromise) {
  if (const char* seed = std::getenv("HOLDFAST_SIM_SEED")) return run(std::stoull(seed));
  const char* many = std::getenv("HOLDFAST_SIM_SEEDS");
  const std::uint64_t seeds = many != nullptr ? std::stoull(many) : 2000;
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) run(seed);
}

}  // namespace
}  // namespace holdfast::machine::testing
