// The facts that a report needs about a run besides its history and its verdict.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "lab/checker/checker.h"
#include "lab/checker/expected.h"

namespace holdfast::lab {

struct RunFacts {
  std::string scenario;
  std::uint64_t seed = 0;
  std::string store;    // Its usual name, without credentials: "redis".
  std::string version;  // The store's: "7.0.15".
  std::string holdfast;
  std::string commit;  // The commit of the program's build; empty if unknown.
  std::int64_t duration_ns = 0;
  std::string replay;  // The command that runs it again.
  Expectations expected{};
  std::map<std::uint32_t, std::string> processes;  // Names of processes; others have a number.
};

// Whether all classes were seen as expected.
bool as_expected(const Expectations& expected, const Verdict& verdict);

}  // namespace holdfast::lab
