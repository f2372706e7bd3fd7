// The expected classes of violation of a run, as scenarios and exhibits declare them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lab/checker/violation.h"

namespace holdfast::lab {

enum class Expected : std::uint8_t {
  kNone,  // Any violation is an error.
  kMust,  // The cell is declared unsafe, so a run without a violation fails, too.
  kMay,   // Declared, but not certain to occur in every run.
};

using Expectations = std::array<Expected, kClasses>;  // By class; kNone by default.

// "none", "must", "may".
std::string_view name_of(Expected expected);

// Whether this many violations of a class were expected.
bool as_expected(Expected expected, std::size_t seen);

}  // namespace holdfast::lab
