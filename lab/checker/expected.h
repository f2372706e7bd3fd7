// The expected classes of violation of a run, as scenarios and exhibits declare them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lab/checker/violation.h"

namespace holdfast::lab {

enum class Expected : std::uint8_t {
  kNone,  // One is one too many.
  kMust,  // The cell is declared unsafe: not to see one is a failure too.
  kMay,   // Declared, and not certain to show in every run.
};

using Expectations = std::array<Expected, kClasses>;  // By class; all kNone unless said otherwise.

// "none", "must", "may".
std::string_view name_of(Expected expected);

// Whether so many of a class are what was expected.
bool as_expected(Expected expected, std::size_t seen);

}  // namespace holdfast::lab
