// What an owner does, until its time is over: one loop per kind of workload.
//
// Guarantee: all choices come from the seed. Everything that was acquired is released, or was lost,
// or is forgotten on purpose, when work() returns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/scenario/scenario.h"
#include "lab/workload/actor.h"

namespace holdfast::lab {

// The names of the locks of a run, in the order of History::locks.
std::vector<std::string> lock_names(const Scenario& scenario, const std::string& prefix);

struct Shift {
  const WorkloadSpec& spec;
  std::uint32_t first_lock = 0;  // Of the spec's own.
  std::uint64_t seed = 0;
  std::int64_t until_ns = 0;
};

void work(Actor& actor, const Shift& shift);

}  // namespace holdfast::lab
