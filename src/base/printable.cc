#include "src/base/printable.h"

#include <cstdio>

namespace holdfast::base {
namespace {

// Allowed in names, and yet what follows is not shown where it stands.
bool changes_direction(std::uint32_t point) {
  return point == 0x61C || point == 0x200E || point == 0x200F ||
         (point >= 0x202A && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069);
}

}  // namespace

// Ranges after the Unicode Standard, table 3-7.
std::size_t utf8_sequence(std::string_view text, std::uint32_t& point) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0);
  if (first < 0x80) return point = first, 1;
  if (first >= 0xC2 && first <= 0xDF && tail(1)) {
    point = (first & 0x1FU) << 6U | (byte(1) & 0x3FU);
    return 2;
  }
  if ((first & 0xF0U) == 0xE0U && tail(1) && tail(2)) {
    point = (first & 0x0FU) << 12U | (byte(1) & 0x3FU) << 6U | (byte(2) & 0x3FU);
    return point >= 0x800 && (point < 0xD800 || point > 0xDFFF) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4 && tail(1) && tail(2) && tail(3)) {
    point = (first & 0x07U) << 18U | (byte(1) & 0x3FU) << 12U | (byte(2) & 0x3FU) << 6U |
            (byte(3) & 0x3FU);
    return point >= 0x10000 && point <= 0x10FFFF ? 4 : 0;
  }
  return 0;
}

bool is_control(std::uint32_t point) {
  return point < 0x20 || (point >= 0x7F && point < 0xA0) || point == 0x2028 || point == 0x2029;
}

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    std::uint32_t point = 0;
    std::size_t length = utf8_sequence(text, point);
    if (length == 0 || is_control(point) || changes_direction(point)) {
      length = length == 0 ? 1 : length;
      for (std::size_t i = 0; i < length; ++i) {
        char escaped[5];
        std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned char>(text[i]));
        out += escaped;
      }
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace holdfast::base
