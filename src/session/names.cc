#include "src/session/names.h"

#include <algorithm>

#include "holdfast/detail/utf8.h"
#include "src/base/printable.h"

namespace holdfast::session {
namespace {

constexpr std::size_t kLongestName = 256;
constexpr std::string_view kInner = "/../";

Error bad_name(std::string_view name, const std::string& what) {
  return {Errc::kInvalidArgument, "lock name '" + printable(name.substr(0, 64)) + "': " + what};
}

bool has_dot_dot_segment(std::string_view name) {
  while (true) {
    const auto slash = name.find('/');
    if (name.substr(0, slash) == "..") return true;
    if (slash == std::string_view::npos) return false;
    name.remove_prefix(slash + 1);
  }
}

}  // namespace

Result<void> check_name(std::string_view name) {
  if (name.empty()) return bad_name(name, "it is empty; a name has 1 to 256 bytes");
  if (name.size() > kLongestName) {
    return bad_name(name,
                    "it has " + std::to_string(name.size()) + " bytes; a name has at most 256");
  }
  for (std::size_t at = 0; at < name.size();) {
    const detail::CodePoint point = detail::front_code_point(name.substr(at));
    if (point.length == 0) return bad_name(name, "it is not UTF-8 at byte " + std::to_string(at));
    if (detail::is_control(point.value)) {
      return bad_name(name, "it has a control character at byte " + std::to_string(at));
    }
    at += point.length;
  }
  if (has_dot_dot_segment(name)) return bad_name(name, "'..' is not allowed as a segment");
  return {};
}

Result<void> check_shown_name(std::string_view name) {
  const auto at = name.rfind(kInner);
  if (at == std::string_view::npos) return check_name(name);
  const std::string_view purpose = name.substr(at + kInner.size());
  const bool is_word = !purpose.empty() && std::all_of(purpose.begin(), purpose.end(),
                                                       [](char c) { return c >= 'a' && c <= 'z'; });
  if (!is_word) return check_name(name);
  const auto inner = InnerName::make(name.substr(0, at), purpose);
  return inner ? Result<void>() : Result<void>(inner.error());
}

Result<InnerName> InnerName::make(std::string_view name, std::string_view purpose) {
  if (auto good = check_name(name); !good) return good.error();
  std::string text = std::string(name) + std::string(kInner) + std::string(purpose);
  if (text.size() <= kLongestName) return InnerName(std::move(text));
  return bad_name(name, "it has " + std::to_string(name.size()) + " bytes; the name of a " +
                            std::string(purpose) + " has at most " +
                            std::to_string(kLongestName - (text.size() - name.size())));
}

std::string lock_named(std::string_view name) { return "lock '" + printable(name) + "'"; }

std::string printable(std::string_view text) { return base::printable(text); }

}  // namespace holdfast::session
