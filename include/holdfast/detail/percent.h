// Percent-encoding: the only encoder and decoder of the library and the program. Each caller says
// which bytes stay as they are.
//
// Guarantee: decoding what was encoded gives it back, when '%' does not stay.
// Thread-safety: pure functions.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/export.h"

namespace holdfast::detail {

inline constexpr char kUpperDigits[] = "0123456789ABCDEF";
inline constexpr char kLowerDigits[] = "0123456789abcdef";

constexpr bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Printable ASCII without the space.
constexpr bool is_visible(char c) { return c > ' ' && c < 0x7f; }

constexpr bool is_one_of(char c, std::string_view characters) {
  return characters.find(c) != std::string_view::npos;
}

// `stays(char)`: the byte needs no escape.
template <typename Stays>
std::string percent_encode(std::string_view text, const Stays& stays,
                           const char* digits = kUpperDigits) {
  std::string out;
  out.reserve(text.size());
  for (const char each : text) {
    const auto byte = static_cast<unsigned char>(each);
    if (stays(each)) {
      out += each;
    } else {
      out += {'%', digits[byte >> 4U], digits[byte & 15U]};
    }
  }
  return out;
}

// The byte of "%2F" at the front of `text`; nullopt: not two hexadecimal digits after a '%'.
inline std::optional<char> percent_escape(std::string_view text) {
  if (text.size() < 3 || text[0] != '%') return std::nullopt;
  unsigned char byte = 0;
  const auto [end, error] = std::from_chars(text.data() + 1, text.data() + 3, byte, 16);
  if (error != std::errc{} || end != text.data() + 3) return std::nullopt;
  return static_cast<char>(byte);
}

// nullopt: a '%' without two hexadecimal digits after it, or an unescaped byte that must not stay.
template <typename Stays>
std::optional<std::string> percent_decode(std::string_view text, const Stays& stays) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto byte = percent_escape(text);
    if (!byte && (text[0] == '%' || !stays(text[0]))) return std::nullopt;
    out += byte.value_or(text[0]);
    text.remove_prefix(byte ? 3 : 1);
  }
  return out;
}

inline std::optional<std::string> percent_decode(std::string_view text) {
  return percent_decode(text, [](char) { return true; });
}

}  // namespace holdfast::detail
