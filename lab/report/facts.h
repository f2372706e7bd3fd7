// What a report has to know of a run besides its history and its verdict.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "lab/checker/checker.h"

namespace holdfast::lab {

enum class Expected : std::uint8_t {
  kForbidden,  // One is one too many.
  kRequired,   // The cell is declared unsafe: not to see one is a failure too.
  kAllowed,    // Declared, and not certain to show in every run.
};

// "never", "must", "may"; in `facts` of a report and in scenario files.
std::string_view name_of(Expected expected);

using Expectations = std::array<Expected, kClasses>;

struct RunFacts {
  std::string scenario;
  std::uint64_t seed = 0;
  std::string store;    // As people call it, without credentials: "redis".
  std::string version;  // Of the store: "7.0.15".
  std::string holdfast;
  std::int64_t duration_ns = 0;
  std::string replay;       // The command that runs it again.
  Expectations expected{};  // Per class; all forbidden unless said otherwise.
  std::map<std::uint32_t, std::string> processes;  // What to call them; those without a name: "".
};

// Whether a class was seen as expected.
bool as_expected(Expected expected, std::size_t seen);
// Whether all were.
bool as_expected(const RunFacts& facts, const Verdict& verdict);

}  // namespace holdfast::lab
