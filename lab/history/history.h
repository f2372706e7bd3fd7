// What happened in one run: the names and all events in the order of their stamps.
#pragma once

#include <string>
#include <vector>

#include "lab/history/event.h"

namespace holdfast::lab {

struct History {
  std::vector<std::string> locks;
  std::vector<std::string> targets;  // Of faults and incarnations: "redis-1", "client 3".
  std::vector<Event> events;         // Never earlier than the one before.

  friend bool operator==(const History&, const History&) = default;
};

}  // namespace holdfast::lab
