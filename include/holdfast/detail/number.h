// The only reader of whole numbers in text. Thread-safety: pure functions.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

#include "holdfast/export.h"

namespace holdfast::detail {

// nullopt: `text` is not one number and nothing else, or the number does not fit.
template <typename T>
std::optional<T> parse_number(std::string_view text, int base = 10) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

}  // namespace holdfast::detail
