// The work of an owner, until its time is over: one loop per kind of workload.
//
// Guarantee: all choices come from the seed. When work() returns, every acquired lock is released,
// lost, or forgotten on purpose.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "lab/scenario/scenario.h"
#include "lab/workload/actor.h"

namespace holdfast::lab {

// The names of the locks of a run, in the order of History::locks.
std::vector<std::string> lock_names(const Scenario& scenario, const std::string& prefix);

// How many events a client and its predecessors may record until a given time. So a long run needs
// no more memory, however often its clients are killed. The recorder has room for the rest.
struct Pace {
  std::uint64_t room = 0;   // For all owners of this client over the whole run.
  std::uint64_t used = 0;   // By its predecessors.
  std::uint64_t spare = 0;  // Events of its owners between two checks of the pace.
  std::int64_t begin_ns = 0;
  std::int64_t until_ns = 0;

  // From the beginning of the run.
  static Pace of(const Scenario& scenario, std::int64_t begin_ns, std::int64_t until_ns);
  Pace after(std::uint64_t recorded) const;
  std::uint64_t capacity() const { return room - std::min(used, room) + 2 * spare; }
  bool is_ahead(std::uint64_t recorded, std::int64_t at_ns) const;
};

struct Shift {
  const WorkloadSpec& spec;
  std::uint32_t first_lock = 0;  // The spec's own first lock.
  std::uint64_t seed = 0;
  std::int64_t until_ns = 0;
  Pace pace{};  // Without room there is no limit.
};

void work(Actor& actor, const Shift& shift);

}  // namespace holdfast::lab
