// The options of a store's URL, declared once: the reader, its messages and lists of options come
// from the declaration.
//
// Errors: kInvalidArgument, in one shape: "redis URL: connect_timeout is a time of at least 1ms".
// Thread-safety: pure functions and values.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/result.h"
#include "src/port/store_url.h"

namespace holdfast::port {

struct UrlOption {
  enum class Kind : std::uint8_t { kText, kTime, kNumber, kWord };

  std::string_view name;
  Kind kind = Kind::kText;
  std::string_view help;      // Its effect.
  std::string_view fallback;  // As it would be written; empty: none.
  // Bounds of a time in milliseconds, or of a number.
  std::int64_t least = 0;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::string_view words{};  // The choices of kWord, separated by '|'.
};

constexpr UrlOption text_option(std::string_view name, std::string_view help) {
  return {name, UrlOption::Kind::kText, help, {}};
}

constexpr UrlOption time_option(std::string_view name, std::string_view fallback,
                                std::string_view help,
                                std::chrono::milliseconds least = std::chrono::milliseconds(1),
                                std::chrono::milliseconds most = std::chrono::milliseconds::max()) {
  return {name, UrlOption::Kind::kTime, help, fallback, least.count(), most.count()};
}

constexpr UrlOption number_option(std::string_view name, std::string_view fallback,
                                  std::string_view help, std::uint32_t most) {
  return {name, UrlOption::Kind::kNumber, help, fallback, 0, most};
}

constexpr UrlOption word_option(std::string_view name, std::string_view words,
                                std::string_view help) {
  return {name, UrlOption::Kind::kWord, help, {}, 0, 0, words};
}

// The values of declared options.
class UrlOptions {
 public:
  // Takes them out of `url`. `store` is the word messages begin with.
  static Result<UrlOptions> take(StoreUrl& url, std::string_view store,
                                 std::span<const UrlOption> declared);

  // Whether the URL gives it.
  bool has(std::string_view name) const;
  // As given, or else the fallback; empty or zero: neither.
  std::string text(std::string_view name) const { return find(name).text; }
  std::chrono::milliseconds time(std::string_view name) const {
    return std::chrono::milliseconds(find(name).number);
  }
  std::uint32_t number(std::string_view name) const {
    return static_cast<std::uint32_t>(find(name).number);
  }

 private:
  struct Value {
    std::string_view name{};
    std::string text{};
    std::int64_t number = 0;
    bool given = false;
  };
  const Value& find(std::string_view name) const;

  std::vector<Value> values_;
};

// kInvalidArgument when an option is left that nobody has taken.
Result<void> reject_unknown_options(const StoreUrl& url, std::string_view store);

}  // namespace holdfast::port
