#include "tests/support/url_text.h"

#include <cctype>
#include <string_view>

namespace holdfast::support {

std::string percent_encoded(const std::string& text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string result;
  for (const char each : text) {
    const auto byte = static_cast<unsigned char>(each);
    if (std::isalnum(byte) != 0 || std::string_view("-._~/").find(each) != std::string_view::npos) {
      result += each;
    } else {
      result += {'%', kDigits[byte / 16], kDigits[byte % 16]};
    }
  }
  return result;
}

std::string query_text(const std::map<std::string, std::string>& query) {
  std::string text;
  for (const auto& [name, value] : query) {
    text += (text.empty() ? "?" : "&") + name + "=" + percent_encoded(value);
  }
  return text;
}

}  // namespace holdfast::support
