// Finds out who waits for whom, and whether that can ever end. Pure: a reading of the queues in, an
// answer out.
//
// Only owners that were named count (holdfast/owner.h). An owner is stuck when each of its waits
// is:
//   exclusive, shared: one holder in the way, or one before it in a queue in order, is stuck
//   permits:           all holders are, or one before it in a queue in order
// An owner that exclusively holds the lock it waits for blocks itself. One that holds it shared
// does not, because it may be about to upgrade.
//
// One wait of each circle ends: the youngest by the wall clocks of the waiters. Between two equally
// young ones the greater id decides. All clients choose the same wait, so one gives up and the
// others continue.
//
// Not guaranteed by one reading: a snapshot over several locks. Two readings with equal `edges`
// give one: each wait and each grant in them existed all the time in between.
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
