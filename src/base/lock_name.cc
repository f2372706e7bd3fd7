#include "src/base/lock_name.h"

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

}  // namespace

Error bad_lock_name(std::string_view name, const std::string& what) {
  return {Errc::kInvalidArgument, "lock name '" + printable(name.substr(0, 64)) + "': " + what};
}

Result<void> check_lock_name(std::string_view name) {
  if (name.empty()) return bad_lock_name(name, "it is empty; a name has 1 to 256 bytes");
  if (name.size() > kLongestLockName) {
    return bad_lock_name(
        name, "it has " + std::to_string(name.size()) + " bytes; a name has at most 256");
  }
  for (std::size_t at = 0; at < name.size();) {
    const detail::CodePoint point = detail::front_code_point(name.substr(at));
    if (point.length == 0) {
      return bad_lock_name(name, "it is not UTF-8 at byte " + std::to_string(at));
    }
    if (detail::is_control(point.value)) {
      return bad_lock_name(name, "it has a control character at byte " + std::to_string(at));
    }
    at += point.length;
  }
  if (has_dot_dot_segment(name)) return bad_lock_name(name, "'..' is not allowed as a segment");
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
