#include "src/session/names.h"

#include <algorithm>

#include "src/base/lock_name.h"
#include "src/base/printable.h"

namespace holdfast::session {
namespace {

constexpr std::string_view kInner = "/../";

}  // namespace

Result<void> check_name(std::string_view name) { return base::check_lock_name(name); }

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
  if (text.size() <= base::kLongestLockName) return InnerName(std::move(text));
  return base::bad_lock_name(
      name, "it has " + std::to_string(name.size()) + " bytes; the name of a " +
                std::string(purpose) + " has at most " +
                std::to_string(base::kLongestLockName - (text.size() - name.size())));
}

std::string lock_named(std::string_view name) { return "lock '" + printable(name) + "'"; }

std::string printable(std::string_view text) { return base::printable(text); }

}  // namespace holdfast::session
