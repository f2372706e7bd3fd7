// Values as they stand in a statement's text. Every value is a number or hexadecimal digits, so
// there is nothing in a text that a character set or a mode of the server could read otherwise.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/hex.h"
#include "src/machine/types.h"
#include "src/sql/values.h"

namespace holdfast::stores::mysql {

inline std::string text_of(std::int64_t number) { return std::to_string(number); }
inline std::string text_of(std::string_view bytes) { return "x'" + base::hex_of(bytes) + "'"; }
inline std::string text_of(const machine::AcquisitionId& id) {
  return id ? text_of(std::string_view(sql::bytes_of(id))) : "NULL";
}

// "(a,b,c)"
template <typename... Values>
std::string row_of(const Values&... values) {
  std::string row = "(";
  ((row += text_of(values), row += ','), ...);
  row.back() = ')';
  return row;
}

// Never zero, and never twice: a row that has it was changed by the statement that named it.
std::int64_t new_stamp();

// "first,second": appends with a comma where something is there already.
inline void append(std::string& list, std::string_view item) {
  if (!list.empty()) list += ',';
  list += item;
}

}  // namespace holdfast::stores::mysql
