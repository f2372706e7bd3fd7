// The events of one run: the names and all events in the order of their stamps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lab/history/event.h"

namespace holdfast::lab {

// The limits for judging the run, as far as scenarios may set them.
struct Limits {
  std::int64_t wake_ns = 0;    // How long a lock may be free during a wait.
  std::int64_t grace_ns = 0;   // The same after faults and ended leases.
  bool busy = true;            // Whether refused tries are judged.
  std::int64_t linger_ns = 0;  // How long a store may still refuse others after a lease.
  bool extends = false;        // A server that comes back gives each lease its whole length again.
  bool fenced = true;          // The store promises that tokens grow.

  friend bool operator==(const Limits&, const Limits&) = default;
};

struct History {
  std::vector<std::string> locks;
  std::vector<std::string> targets;  // Targets of faults and incarnations: "redis-1", "client 3".
  std::vector<Event> events;         // In the order of their stamps.
  std::optional<Limits> limits{};

  friend bool operator==(const History&, const History&) = default;
};

}  // namespace holdfast::lab
