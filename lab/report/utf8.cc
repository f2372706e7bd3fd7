#include "lab/report/utf8.h"

#include <algorithm>

namespace holdfast::lab {
namespace {

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

// The length of the character at `at`; 0 if it is invalid UTF-8, or not allowed in XML 1.0.
std::size_t character_at(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return first >= 0x20 && first != 0x7F ? 1 : 0;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!continues(text[at + i])) return 0;
  }
  const auto second = static_cast<unsigned char>(text[at + 1]);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second >= 0xA0;
  const bool too_high = first == 0xF4 && second >= 0x90;
  const bool no_character = first == 0xEF && second == 0xBF && length == 3 &&
                            static_cast<unsigned char>(text[at + 2]) >= 0xBE;
  return overlong || surrogate || too_high || no_character ? 0 : length;
}

std::size_t end_of_character(std::string_view text, std::size_t at) {
  ++at;
  while (at < text.size() && continues(text[at])) ++at;
  return at;
}

}  // namespace

std::string valid_utf8(std::string_view text) {
  std::string valid;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_at(text, at);
    if (length == 0) {
      valid += '?';
      ++at;
    } else {
      valid += text.substr(at, length);
      at += length;
    }
  }
  return valid;
}

std::string shortened(std::string_view text, std::size_t most) {
  std::size_t count = 0;
  std::size_t cut = 0;  // The end of `most` - 1 characters.
  for (std::size_t at = 0; at < text.size(); ++count) {
    at = end_of_character(text, at);
    if (count + 2 == most) cut = at;
  }
  if (count <= most) return std::string(text);
  return std::string(text.substr(0, cut)) + "…";
}

std::vector<std::string> wrapped(std::string_view text, std::size_t columns) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    std::size_t end = 0;
    std::size_t space = 0;
    for (std::size_t count = 0; end < text.size() && count < columns; ++count) {
      end = end_of_character(text, end);
      if (end < text.size() && text[end] == ' ') space = end;
    }
    if (end < text.size() && space > 0) end = space;
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  }
  return lines;
}

}  // namespace holdfast::lab
