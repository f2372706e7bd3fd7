// The faults of a run, their targets and times, drawn from the seed before the run starts.
//
// Guarantee: equal scenarios have equal schedules, on any machine. No two strikes of one kind hit
// one target at once, nor two that stop or kill one process. All have healed when the calm begins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lab/scenario/scenario.h"

namespace holdfast::lab {

inline constexpr std::uint32_t kLeader = 0;
inline constexpr std::uint32_t kFollower = 1'000;

struct Strike {
  milliseconds at{};  // After the start of the run.
  milliseconds lasts{};
  std::size_t nemesis = 0;  // Index into Scenario::nemeses.
  std::uint32_t slot = 0;   // The client; 0 for a server, all links to one, or the host.
  std::uint32_t node = 1;   // Which server, also of a client cut off from one; kLeader: the leader
                            // at that time, kFollower: a node that does not lead.
  bool member = false;      // Hits the node's member alone; so kLeader leads the members.

  friend bool operator==(const Strike&, const Strike&) = default;
};

// Whether the two must not overlap: one kind on one target, or both on one process.
bool exclude(const Scenario& scenario, const Strike& one, const Strike& other);

// In the order of their beginnings.
std::vector<Strike> schedule(const Scenario& scenario);

// The error of a scenario in which a nemesis has no time, even if it were the only one; nullopt if
// there is none.
std::optional<std::string> never_strikes(const Scenario& scenario);

}  // namespace holdfast::lab
