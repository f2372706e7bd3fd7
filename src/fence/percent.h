// Percent-encoding for names in headers and files.
//
// Guarantee: decoding what was encoded gives it back; different texts have different encodings.
// Thread-safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace holdfast::fence {

// Printable ASCII but % and what is in `also` stays as it is.
std::string percent_encode(std::string_view text, std::string_view also);

// nullopt: a % without two hexadecimal digits after it, or a byte that is not printable ASCII.
std::optional<std::string> percent_decode(std::string_view text);

}  // namespace holdfast::fence
