// The admission rule over a queue that is a plain list, written anew for the tests: the machine
// applies it to running sums.
//
// Thread-safety: plain values and a pure function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "src/machine/admission.h"

namespace holdfast::machine::testing {

struct Standing {
  Mode mode;
  bool held = false;
  bool upgrade = false;  // Linked to a shared ticket of the same list that holds.
};

// The ticket to be admitted next, if any; ask again after marking it held. Costs one pass.
inline std::optional<std::size_t> next_admitted(std::span<const Standing> tickets,
                                                std::uint32_t capacity) {
  Occupancy held;
  std::size_t upgrade = tickets.size();
  std::size_t first_waiter = tickets.size();
  for (std::size_t i = 0; i < tickets.size(); ++i) {
    if (tickets[i].held) {
      held.add(tickets[i].mode);
    } else if (tickets[i].upgrade && upgrade == tickets.size()) {
      upgrade = i;
    }
    if (!tickets[i].held && first_waiter == tickets.size()) first_waiter = i;
  }
  if (upgrade < tickets.size() && held.admits_upgrade()) return upgrade;
  // A waiter that cannot be admitted blocks everyone behind it: passing it would starve it.
  if (first_waiter < tickets.size() && !tickets[first_waiter].upgrade &&
      held.admits(tickets[first_waiter].mode, capacity)) {
    return first_waiter;
  }
  return std::nullopt;
}

}  // namespace holdfast::machine::testing
