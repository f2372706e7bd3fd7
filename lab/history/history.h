// The events of one run: the names and all events in the order of their stamps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lab/history/event.h"

namespace holdfast::lab {

// The rules by which the run was to be judged, as far as scenarios may set them.
struct Limits {
  std::int64_t wake_ns = 0;    // How long a lock may be free while somebody waits ...
  std::int64_t grace_ns = 0;   // ... after faults and ended leases.
  bool busy = true;            // Whether refused tries are judged.
  std::int64_t linger_ns = 0;  // How long a store may refuse others after a lease has ended.

  friend bool operator==(const Limits&, const Limits&) = default;
};

struct History {
  std::vector<std::string> locks;
  std::vector<std::string> targets;  // Targets of faults and incarnations: "redis-1", "client 3".
  std::vector<Event> events;         // Never earlier than the one before.
  std::optional<Limits> limits{};

  friend bool operator==(const History&, const History&) = default;
};

}  // namespace holdfast::lab
