#include "src/session/names.h"

#include <cstdint>
#include <cstdio>

namespace holdfast::session {
namespace {

constexpr std::size_t kLongestName = 256;

Error bad_name(std::string_view name, const std::string& what) {
  return {Errc::kInvalidArgument, "lock name '" + printable(name.substr(0, 64)) + "': " + what};
}

// The length of the well-formed UTF-8 sequence at the front, and its code point; 0: not one.
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

// Allowed in names, and yet what follows is not shown where it stands.
bool changes_direction(std::uint32_t point) {
  return point == 0x61C || point == 0x200E || point == 0x200F ||
         (point >= 0x202A && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069);
}

bool has_dot_dot_segment(std::string_view name) {
  while (true) {
    const auto slash = name.find('/');
    if (name.substr(0, slash) == "..") return true;
    if (slash == std::string_view::npos) return false;
    name.remove_prefix(slash + 1);
  }
}

}  // namespace

Result<void> check_name(std::string_view name) {
  if (name.empty()) return bad_name(name, "it is empty; a name has 1 to 256 bytes");
  if (name.size() > kLongestName) {
    return bad_name(name,
                    "it has " + std::to_string(name.size()) + " bytes; a name has at most 256");
  }
  for (std::size_t at = 0; at < name.size();) {
    std::uint32_t point = 0;
    const std::size_t length = utf8_sequence(name.substr(at), point);
    if (length == 0) return bad_name(name, "it is not UTF-8 at byte " + std::to_string(at));
    if (is_control(point)) {
      return bad_name(name, "it has a control character at byte " + std::to_string(at));
    }
    at += length;
  }
  if (has_dot_dot_segment(name)) return bad_name(name, "'..' is not allowed as a segment");
  return {};
}

Result<InnerName> InnerName::make(std::string_view name, std::string_view purpose) {
  if (auto good = check_name(name); !good) return good.error();
  std::string text = std::string(name) + "/../" + std::string(purpose);
  if (text.size() <= kLongestName) return InnerName(std::move(text));
  return bad_name(name, "it has " + std::to_string(name.size()) + " bytes; the name of a " +
                            std::string(purpose) + " has at most " +
                            std::to_string(kLongestName - (text.size() - name.size())));
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

}  // namespace holdfast::session
