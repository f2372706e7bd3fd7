// Reads a text of fields that single spaces part, one after the other.
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>

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
    const std::string_view text = word();
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) good_ = false;
    return value;
  }

  std::string_view rest() const { return rest_; }
  // Every field so far was there, and every number was one.
  bool good() const { return good_; }

 private:
  std::string_view rest_;
  bool good_ = true;
};

}  // namespace holdfast::stores::redis
