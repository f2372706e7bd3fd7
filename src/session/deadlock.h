// Finds out who waits for whom, and whether that can ever end. Pure: a reading of the queues in, an
// answer out.
//
// Only owners that were named count (holdfast/owner.h). An owner is stuck when each of its waits
// is:
//   exclusive, shared: one holder in the way, or one before it in a queue in order, is stuck
//   permits:           all holders are, or one before it in a queue in order
// An owner that holds what it waits for exclusively stands in its own way; one that holds a share
// of it may be about to upgrade, and does not.
//
// Who is told: of the owners that wait for each other in a circle, the one whose wait is the
// youngest, by the wall clocks of those who wait; of two as young the one with the greater id. It
// is the same for each of them, so that one of them gives up and the others go on.
//
// Not guaranteed by one reading: it is no snapshot over several locks. Two readings with equal
// `edges` are: each wait and each grant in them was there all the time in between.
//
// Thread-safety: pure functions.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/lock_info.h"

namespace holdfast::session {

// As Owner::id() has it: a label, '#' and 32 hexadecimal digits.
bool is_named_owner(std::string_view owner);

// Owners that wait for ever, if this reading is true.
std::set<std::string> stuck_owners(const std::vector<LockInfo>& locks);

struct Deadlock {
  std::vector<std::string> edges;  // All that the stuckness rests on, to be compared.
  std::string cycle;               // For people, with the names as they are in the reading.
};

// For `owner`'s wait for `lock`. nullopt: it is in no circle, or another one is to give up.
std::optional<Deadlock> find_deadlock(const std::vector<LockInfo>& locks, const std::string& owner,
                                      const std::string& lock);

}  // namespace holdfast::session
