// Appends replies in the Redis protocol, in version 2 and 3.
//
// Thread-safety: pure functions.
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::server {

template <std::integral Number>
void append_number(std::string& out, Number number) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

inline void append_head(std::string& out, char sign, std::size_t number) {
  char head[24] = {sign};
  char* const end = std::to_chars(head + 1, head + sizeof head - 2, number).ptr;
  end[0] = '\r';
  end[1] = '\n';
  out.append(head, end + 2);
}

inline void append_array(std::string& out, std::size_t items) { append_head(out, '*', items); }

inline void append_text(std::string& out, std::string_view text) {
  out.reserve(out.size() + text.size() + 16);
  append_head(out, '$', text.size());
  out.append(text).append("\r\n");
}

inline void append_status(std::string& out, std::string_view text) {
  out.append("+").append(text).append("\r\n");
}

inline void append_integer(std::string& out, std::int64_t number) {
  out += ':';
  append_number(out, number);
  out += "\r\n";
}

// A line break in `text` would end the reply: it is written as a space.
inline void append_error(std::string& out, std::string_view text) {
  out += '-';
  for (const char c : text) out += c == '\r' || c == '\n' ? ' ' : c;
  out += "\r\n";
}

// The head of a message that nobody asked for: a push in version 3, an array in version 2.
inline void append_push(std::string& out, int protocol, std::size_t items) {
  append_head(out, protocol == 3 ? '>' : '*', items);
}

}  // namespace holdfast::server
