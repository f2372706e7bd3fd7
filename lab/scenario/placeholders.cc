#include "lab/scenario/placeholders.h"

namespace holdfast::lab {
namespace {

constexpr std::string_view kPlaceholderLetters = "abcdefghijklmnopqrstuvwxyz_";

// Calls `plain(text)` and `place(name)` for the parts in their order.
template <typename Plain, typename Place>
void take_apart(std::string_view text, Plain plain, Place place) {
  std::size_t done = 0;
  for (std::size_t open = text.find('{'); open != text.npos; open = text.find('{', open + 1)) {
    const std::size_t end = text.find_first_not_of(kPlaceholderLetters, open + 1);
    if (end == text.npos || end == open + 1 || text[end] != '}') continue;
    if (open > 0 && text[open - 1] == '$') continue;
    plain(text.substr(done, open - done));
    place(text.substr(open + 1, end - open - 1));
    done = end + 1;
  }
  plain(text.substr(done));
}

}  // namespace

std::vector<std::string> placeholders(std::string_view text) {
  std::vector<std::string> found;
  take_apart(
      text, [](std::string_view) {}, [&](std::string_view name) { found.emplace_back(name); });
  return found;
}

std::string filled(std::string_view text, const Values& values) {
  std::string result;
  take_apart(
      text, [&](std::string_view plain) { result += plain; },
      [&](std::string_view name) {
        const auto value = values.find(name);
        if (value != values.end()) {
          result += value->second;
        } else {
          result.append("{").append(name).append("}");
        }
      });
  return result;
}

std::vector<std::string> filled(const std::vector<std::string>& texts, const Values& values) {
  std::vector<std::string> all;
  all.reserve(texts.size());
  for (const std::string& text : texts) all.push_back(filled(text, values));
  return all;
}

}  // namespace holdfast::lab
