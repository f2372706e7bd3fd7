// The process of a client: its owners work until the run is over, or it is killed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/scenario/scenario.h"
#include "lab/subject/subject.h"

namespace holdfast::lab {

struct WorkerOrders {
  std::string folder;         // The run's.
  std::uint32_t process = 0;  // Its number.
  std::uint32_t slot = 0;     // Which client it is: 1, 2, ...
  std::int64_t begin_ns = 0;  // The run's.
  std::int64_t until_ns = 0;
  std::uint64_t recorded = 0;  // Events of the processes that it replaces.
  std::string prefix;          // The prefix of the lock names.
  std::vector<std::string> urls;
};

// The files of a run's folder.
std::string scenario_file(const std::string& folder);
std::string resource_file(const std::string& folder);

// Returns when all work is done. Throws std::runtime_error.
void run_worker(const WorkerOrders& orders, const std::vector<SubjectKind>& subjects);

}  // namespace holdfast::lab
