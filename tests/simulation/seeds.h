// A simulation by its seeds: HOLDFAST_SIM_SEED=N plays that one, HOLDFAST_SIM_SEEDS=N those up to
// it, and HOLDFAST_SIM_FIRST=N leaves those before it out.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "src/machine/testing/replay_note.h"

namespace holdfast::simulation {

inline std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// How many worlds are played where nobody says: a sanitized one takes ten times as long, and more.
#if defined(HOLDFAST_SANITIZED)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
constexpr std::uint64_t usually(std::uint64_t plain, std::uint64_t sanitized) {
  return kSanitized ? sanitized : plain;
}

// `Run{seed}.play()` says what went wrong; empty: nothing. The failure tells how to replay it.
template <typename Run>
void play(std::uint64_t seed, const std::string& program) {
  const std::string replay = "replay: HOLDFAST_SIM_SEED=" + std::to_string(seed) + " " + program;
  const machine::testing::ReplayNote note(replay);
  SCOPED_TRACE(replay);
  EXPECT_EQ(Run{seed}.play(), "");
}

// Ends with the first that fails.
template <typename Run>
void play_seeds(std::uint64_t usual, const std::string& program) {
  if (const std::uint64_t only = number_from("HOLDFAST_SIM_SEED", 0); only != 0) {
    return play<Run>(only, program);
  }
  const std::uint64_t seeds = number_from("HOLDFAST_SIM_SEEDS", usual);
  for (std::uint64_t seed = number_from("HOLDFAST_SIM_FIRST", 1); seed <= seeds; ++seed) {
    play<Run>(seed, program);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace holdfast::simulation
