#include "src/base/printable.h"

#include <cstdio>

#include "holdfast/detail/utf8.h"

namespace holdfast::base {

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const detail::CodePoint point = detail::front_code_point(text);
    const std::size_t length = point.length == 0 ? 1 : point.length;
    if (point.length == 0 || detail::is_control(point.value) ||
        detail::changes_direction(point.value)) {
      for (std::size_t i = 0; i < length; ++i) {
        char escaped[5];
        std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned char>(text[i]));
        out += escaped;
      }
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace holdfast::base
