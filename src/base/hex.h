// Bytes as hexadecimal digits.
//
// Thread-safety: pure function.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/detail/percent.h"

namespace holdfast::base {

// Two lower-case digits for each byte.
inline std::string hex_of(std::string_view bytes) {
  std::string digits;
  digits.reserve(2 * bytes.size());
  for (const char each : bytes) {
    const auto byte = static_cast<unsigned char>(each);
    digits += {detail::kLowerDigits[byte >> 4U], detail::kLowerDigits[byte & 15U]};
  }
  return digits;
}

}  // namespace holdfast::base
