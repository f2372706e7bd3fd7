#include "src/port/url_options.h"

#include <algorithm>
#include <utility>

#include "holdfast/detail/number.h"

namespace holdfast::port {
namespace {

using Kind = UrlOption::Kind;

std::string time_text(std::int64_t ms) {
  constexpr std::pair<std::int64_t, const char*> kTimeUnits[] = {
      {3'600'000, "h"}, {60'000, "m"}, {1'000, "s"}};
  for (const auto& [length, unit] : kTimeUnits) {
    if (ms > 0 && ms % length == 0) return std::to_string(ms / length) + unit;
  }
  return std::to_string(ms) + "ms";
}

std::string expected(const UrlOption& option) {
  if (option.kind == Kind::kWord) {
    std::string words(option.words);
    for (auto at = words.find('|'); at != std::string::npos; at = words.find('|', at)) {
      words.replace(at, 1, " or ");
    }
    return words;
  }
  const bool is_time = option.kind == Kind::kTime;
  const auto shown = [is_time](std::int64_t value) {
    return is_time ? time_text(value) : std::to_string(value);
  };
  const std::string what = is_time ? "a time" : "a number";
  const std::string least = shown(option.least);
  if (option.most == std::numeric_limits<std::int64_t>::max())
    return what + " of at least " + least;
  return what + " from " + least + " to " + shown(option.most);
}

bool is_word(std::string_view words, std::string_view text) {
  while (true) {
    const auto end = words.find('|');
    if (words.substr(0, end) == text) return true;
    if (end == std::string_view::npos) return false;
    words.remove_prefix(end + 1);
  }
}

// The number that `text` stands for; zero for words and text.
Result<std::int64_t> read(const UrlOption& option, const std::string& text) {
  std::int64_t number = 0;
  bool good = true;
  switch (option.kind) {
    case Kind::kText: return number;
    case Kind::kWord: good = is_word(option.words, text); break;
    case Kind::kTime:
      if (const auto time = parse_duration(text)) {
        number = time->count();
      } else {
        return Error(Errc::kInvalidArgument,
                     expected(option) + " (" + time.error().message() + ")");
      }
      break;
    case Kind::kNumber: number = detail::parse_number<std::int64_t>(text).value_or(-1);
  }
  if (good && number >= option.least && number <= option.most) return number;
  return Error(Errc::kInvalidArgument, expected(option));
}

}  // namespace

Result<UrlOptions> UrlOptions::take(StoreUrl& url, std::string_view store,
                                    std::span<const UrlOption> declared) {
  UrlOptions all;
  for (const UrlOption& option : declared) {
    auto given = url.take(option.name);
    if (!given && option.fallback.empty()) continue;
    Value value{option.name, given ? *given : std::string(option.fallback), 0, given.has_value()};
    const auto number = read(option, value.text);
    if (!number) {
      return Error(Errc::kInvalidArgument, std::string(store) +
                                               " URL: " + std::string(option.name) + " is " +
                                               number.error().message());
    }
    value.number = *number;
    all.values_.push_back(std::move(value));
  }
  return all;
}

const UrlOptions::Value& UrlOptions::find(std::string_view name) const {
  static const Value kNone;
  const auto found = std::find_if(values_.begin(), values_.end(),
                                  [name](const Value& value) { return value.name == name; });
  return found == values_.end() ? kNone : *found;
}

bool UrlOptions::has(std::string_view name) const { return find(name).given; }

Result<void> reject_unknown_options(const StoreUrl& url, std::string_view store) {
  if (url.options.empty()) return {};
  return Error(Errc::kInvalidArgument,
               std::string(store) + " URL: there is no option '" + url.options.front().first + "'");
}

}  // namespace holdfast::port
