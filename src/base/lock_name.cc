#include "src/base/lock_name.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "holdfast/detail/utf8.h"
#include "src/base/printable.h"

namespace holdfast::base {
namespace {

bool has_dot_dot_segment(std::string_view name) {
  while (true) {
    const auto slash = name.find('/');
    if (name.substr(0, slash) == "..") return true;
    if (slash == std::string_view::npos) return false;
    name.remove_prefix(slash + 1);
  }
}

// "0x1B", "U+0085".
std::string in_hex(const char* before, std::uint32_t value, int digits) {
  std::string text = before;
  for (int at = digits - 1; at >= 0; --at) text += "0123456789ABCDEF"[(value >> (4 * at)) & 0xfU];
  return text;
}

// The fault of these bytes, in words; empty: there is none.
std::string trouble_of(std::string_view text, std::size_t most) {
  if (text.size() > most) {
    return "it has " + std::to_string(text.size()) + " bytes; a name has at most " +
           std::to_string(most);
  }
  const auto is_plain = [](char c) { return c >= ' ' && c < 0x7f; };
  if (std::all_of(text.begin(), text.end(), is_plain)) return {};
  for (std::size_t at = 0; at < text.size();) {
    const detail::CodePoint point = detail::front_code_point(text.substr(at));
    if (point.length == 0) {
      return "it is not UTF-8 at byte " + std::to_string(at) + " (" +
             in_hex("0x", static_cast<unsigned char>(text[at]), 2) + ")";
    }
    if (detail::is_control(point.value)) {
      return "it has the control character " + in_hex("U+", point.value, 4) + " at byte " +
             std::to_string(at);
    }
    at += point.length;
  }
  return {};
}

}  // namespace

Error bad_lock_name(std::string_view name, const std::string& what) {
  return {Errc::kInvalidArgument, "lock name '" + printable(name.substr(0, 64)) + "': " + what};
}

Result<void> check_lock_name(std::string_view name) {
  if (auto good = check_stored_name(name, kLongestLockName); !good) return good;
  if (has_dot_dot_segment(name)) return bad_lock_name(name, "'..' is not allowed as a segment");
  return {};
}

Result<void> check_lock_prefix(std::string_view prefix) {
  const std::string trouble = trouble_of(prefix, kLongestLockName);
  if (trouble.empty()) return {};
  return Error(Errc::kInvalidArgument,
               "beginning of lock names '" + printable(prefix.substr(0, 64)) + "': " + trouble);
}

Result<void> check_stored_name(std::string_view name, std::size_t most) {
  if (name.empty()) {
    return bad_lock_name(name, "it is empty; a name has 1 to " + std::to_string(most) + " bytes");
  }
  const std::string trouble = trouble_of(name, most);
  if (!trouble.empty()) return bad_lock_name(name, trouble);
  return {};
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const detail::CodePoint point = detail::front_code_point(text);
    if (point.length == 0) return false;
    text.remove_prefix(point.length);
  }
  return true;
}

}  // namespace holdfast::base
