#include "lab/checker/violation.h"

#include <array>

namespace holdfast::lab {

std::string_view name_of(Class kind) {
  constexpr std::array<std::string_view, kClasses> kNames = {
      "malformed", "V0", "V1", "V2", "V3", "stuck", "orphaned", "lost wake-up"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace holdfast::lab
