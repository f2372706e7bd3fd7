// The text of a record in a store: lines of key=value between a head and a checksum.
//
//   holdfast-ids 1          the format
//   kind=segments           what the record is
//   next=4001               its values, each key once
//   checksum=...            of everything above, 32 hexadecimal digits
//
// Guarantee: parse() gives exactly what text() was made of, or an error. A value's control
// characters, which would end its line, become spaces in text().
//
// Thread-safety: a value type.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/detail/number.h"
#include "holdfast/result.h"

namespace holdfast::ids {

class RecordText {
 public:
  explicit RecordText(std::string kind) : kind_(std::move(kind)) {}

  const std::string& kind() const { return kind_; }

  RecordText& add(std::string key, std::string value);
  template <typename Number>
  RecordText& add_number(std::string key, Number value) {
    return add(std::move(key), std::to_string(value));
  }
  std::string text() const;

  // `where` names the record in the messages.
  // Errors: kCorruptState: damaged, or no record of ids. kVersionMismatch: a later version's.
  static Result<RecordText> parse(std::string_view text, const std::string& where);
  // Also kInvalidArgument: a whole record of another kind. The message names both.
  static Result<RecordText> parse(std::string_view text, std::string_view kind,
                                  const std::string& where);

  // nullopt: there is no such key.
  std::optional<std::string> value(std::string_view key) const;
  // nullopt: also when the value is no number of this type.
  template <typename Number>
  std::optional<Number> number(std::string_view key) const {
    const auto found = value(key);
    return found ? detail::parse_number<Number>(*found) : std::nullopt;
  }

 private:
  std::string kind_;
  std::vector<std::pair<std::string, std::string>> values_{};
};

}  // namespace holdfast::ids
