// Reads the fields of a text one after the other. Single spaces separate them.
#pragma once

#include <cstdint>
#include <string_view>

#include "holdfast/detail/number.h"

namespace holdfast::stores::redis {

class Fields {
 public:
  explicit Fields(std::string_view text) : rest_(text) {}

  std::string_view word() {
    const std::size_t end = rest_.find(' ');
    const std::string_view word = rest_.substr(0, end);
    if (word.empty()) good_ = false;
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    return word;
  }

  template <typename T = std::uint64_t>
  T number() {
    const auto value = detail::parse_number<T>(word());
    if (!value) good_ = false;
    return value.value_or(T{});
  }

  // A number that Lua holds exactly: from 0 to below 2^53.
  template <typename T = std::int64_t>
  T amount() {
    const auto value = number<std::int64_t>();
    if (value < 0 || value >= std::int64_t{1} << 53U) good_ = false;
    return static_cast<T>(good_ ? value : 0);
  }

  std::string_view rest() const { return rest_; }
  // Whether every field so far was present, and every number valid.
  bool good() const { return good_; }

 private:
  std::string_view rest_;
  bool good_ = true;
};

}  // namespace holdfast::stores::redis
