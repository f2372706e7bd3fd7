#include "lab/report/counts.h"

#include <map>
#include <set>

namespace holdfast::lab {

Counts count(const History& history) {
  Counts counts;
  std::set<std::uint32_t> processes;
  std::map<std::string, std::size_t> faults;
  for (const Event& event : history.events) {
    if (is_call(event.kind) && event.phase == Phase::kInvoke) {
      ++counts.operations;
      processes.insert(event.process);
    } else if (event.kind == Kind::kFault && event.phase == Phase::kInvoke) {
      ++faults[std::string(name_of(event.fault))];
    } else if (event.kind == Kind::kIncarnation && event.phase == Phase::kInvoke) {
      ++faults["memory lost"];
    } else if (event.kind == Kind::kDeath) {
      ++faults["death"];
    }
  }
  counts.processes = processes.size();
  counts.faults.assign(faults.begin(), faults.end());
  return counts;
}

std::string seconds_text(std::int64_t ns) {
  const std::int64_t tenths = ns / 100'000'000;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

}  // namespace holdfast::lab
