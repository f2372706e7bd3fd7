// The content of a history in numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lab/history/history.h"

namespace holdfast::lab {

struct Counts {
  std::size_t operations = 0;  // Calls that were invoked.
  std::size_t processes = 0;   // Processes with at least one event.
  // How often each fault began, by name; also "death" of a process and "memory lost" of a store.
  std::vector<std::pair<std::string, std::size_t>> faults;
};

Counts count(const History& history);

// "16.5 s"
std::string seconds_text(std::int64_t ns);

}  // namespace holdfast::lab
