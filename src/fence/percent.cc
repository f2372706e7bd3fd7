#include "src/fence/percent.h"

namespace holdfast::fence {
namespace {

constexpr std::string_view kDigits = "0123456789ABCDEF";

bool is_printable(unsigned char byte) { return byte > 0x20 && byte < 0x7f; }

int value_of(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return -1;
}

}  // namespace

std::string percent_encode(std::string_view text, std::string_view also) {
  std::string out;
  for (const char each : text) {
    const auto byte = static_cast<unsigned char>(each);
    if (is_printable(byte) && each != '%' && also.find(each) == also.npos) {
      out += each;
    } else {
      out += {'%', kDigits[byte / 16U], kDigits[byte % 16U]};
    }
  }
  return out;
}

std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!is_printable(static_cast<unsigned char>(text[i]))) return std::nullopt;
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = value_of(text[i + 1]);
    const int low = value_of(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

}  // namespace holdfast::fence
