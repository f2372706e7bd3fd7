// Text of others in messages: names, owners, reasons.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::base {

// The length of the well-formed UTF-8 sequence at the front, and its code point; 0: not one.
std::size_t utf8_sequence(std::string_view text, std::uint32_t& point);

bool is_control(std::uint32_t point);

// `text` with everything unprintable, and what changes the direction of writing, escaped.
std::string printable(std::string_view text);

}  // namespace holdfast::base
