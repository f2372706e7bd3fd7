// Thousands of worlds, each from one seed (testing/world.h says what is checked in them).
//
// HOLDFAST_SIM_SEEDS=100000 runs more of them; HOLDFAST_SIM_SEED=n replays one.
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "src/machine/testing/world.h"
#include "tests/simulation/seeds.h"

namespace holdfast::machine::testing {
namespace {

struct MachineRun {
  std::string play() const { return World(seed).run(120); }
  std::uint64_t seed;
};

TEST(LockMachineSim, EveryWorldKeepsEveryPromise) {
  simulation::play_seeds<MachineRun>(simulation::usually(2'000, 200), "ctest -R lock_machine_sim");
}

}  // namespace
}  // namespace holdfast::machine::testing
