// A password in an input: what is shown of that input is searched for it.
#pragma once

#include <string>
#include <string_view>

namespace holdfast::fuzz {

inline constexpr std::string_view kSecret = "S3cr3t";

// The input with the password for each `$`.
inline std::string with_secret(std::string_view input) {
  std::string text;
  for (const char c : input) {
    if (c == '$') {
      text += kSecret;
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace holdfast::fuzz
