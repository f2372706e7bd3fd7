#include "lab/checker/violation.h"

#include <array>

#include "lab/checker/expected.h"

namespace holdfast::lab {

std::string_view name_of(Class kind) {
  constexpr std::array<std::string_view, kClasses> kNames = {
      "malformed", "V0", "V1", "V2", "V3", "stuck", "orphaned", "lost wake-up"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name_of(Expected expected) {
  constexpr std::array<std::string_view, 3> kNames = {"none", "must", "may"};
  return kNames[static_cast<std::size_t>(expected)];
}

bool as_expected(Expected expected, std::size_t seen) {
  switch (expected) {
    case Expected::kNone: return seen == 0;
    case Expected::kMust: return seen > 0;
    case Expected::kMay: return true;
  }
  return false;
}

}  // namespace holdfast::lab
