#include "src/cli/options/values.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "holdfast/detail/number.h"
#include "src/cli/options/duration.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {

Error invalid(std::string message) { return {Errc::kInvalidArgument, std::move(message)}; }

namespace {

template <typename T>
Result<T> read_word(const std::string& text,
                    std::initializer_list<std::pair<std::string_view, T>> words) {
  std::string all;
  for (const auto& [word, meaning] : words) {
    if (word == text) return meaning;
    all += (all.empty() ? "" : ", ") + std::string(word);
  }
  return invalid(in_quotes(text) + " is not one of " + all);
}

}  // namespace

Result<std::string> read_text(const std::string& text) { return text; }

Result<std::string> read_trace_id(const std::string& text) {
  const auto odd = [](char c) { return c <= ' ' || c > '~'; };
  if (text.size() > 128 || std::any_of(text.begin(), text.end(), odd)) {
    return invalid("has at most 128 characters, of printable ASCII without spaces");
  }
  return text;
}

Result<Duration> read_duration(const std::string& text) { return parse_duration(text); }

Result<Duration> read_period(const std::string& text) {
  auto duration = parse_duration(text);
  if (duration && *duration <= Duration::zero()) return invalid("must be positive");
  return duration;
}

Result<int> read_number(const std::string& text, int least, int most) {
  const auto number = detail::parse_number<int>(text);
  if (number && *number >= least && *number <= most) return *number;
  return invalid(in_quotes(text) + " is not a number from " + std::to_string(least) + " to " +
                 std::to_string(most));
}

Result<int> read_shards(const std::string& text) { return read_number(text, 1, 64); }
Result<int> read_rate(const std::string& text) { return read_number(text, 1, 1'000'000'000); }
Result<int> read_exit_code(const std::string& text) { return read_number(text, 1, 255); }
Result<int> read_exit_timeout(const std::string& text) { return read_number(text, 0, 255); }

Result<OnLost> read_on_lost(const std::string& text) {
  return read_word<OnLost>(
      text, {{"term", OnLost::kTerm}, {"kill", OnLost::kKill}, {"ignore", OnLost::kIgnore}});
}

Result<Leftover> read_leftover(const std::string& text) {
  return read_word<Leftover>(
      text, {{"end", Leftover::kEnd}, {"wait", Leftover::kWait}, {"leave", Leftover::kLeave}});
}

Result<Contain> read_contain(const std::string& text) {
  return read_word<Contain>(
      text, {{"tree", Contain::kTree}, {"pidns", Contain::kPidns}, {"cgroup", Contain::kCgroup}});
}

Result<Mode> read_mode(const std::string& text) {
  if (text == "permits") {
    return invalid("permits cannot be fenced: several of their holders are valid at once");
  }
  return read_word<Mode>(text, {{"exclusive", Mode::exclusive()}, {"shared", Mode::shared()}});
}

std::string mode_word(const Mode& mode) {
  switch (mode.kind()) {
    case Mode::Kind::kExclusive: return "exclusive";
    case Mode::Kind::kShared: return "shared";
    case Mode::Kind::kPermits: return "permits";
  }
  return "exclusive";
}

Result<LogFormat> read_log_format(const std::string& text) {
  return read_word<LogFormat>(
      text,
      {{"text", LogFormat::kText}, {"json", LogFormat::kJson}, {"logfmt", LogFormat::kLogfmt}});
}

Result<TopSort> read_top_sort(const std::string& text) {
  return read_word<TopSort>(text, {{"name", TopSort::kName},
                                   {"queue", TopSort::kQueue},
                                   {"age", TopSort::kAge},
                                   {"left", TopSort::kLeft}});
}

Result<Duration> read_interval(const std::string& text) {
  auto duration = parse_duration(text);
  if (duration && (*duration < Duration(100) || *duration > std::chrono::hours(1))) {
    return invalid("must be between 100ms and 1h");
  }
  return duration;
}

Result<Mode> read_permits(const std::string& text) {
  const std::size_t slash = std::min(text.find('/'), text.size());
  const std::string_view all = text;
  const auto n = detail::parse_number<std::uint32_t>(all.substr(0, slash));
  const auto capacity =
      detail::parse_number<std::uint32_t>(all.substr(std::min(slash + 1, all.size())));
  if (!n || !capacity || *n == 0 || *n > *capacity) {
    return invalid(in_quotes(text) + " is not n/N: write --permits 1/3 for one of three permits");
  }
  return Mode::permits(*n, *capacity);
}

}  // namespace holdfast::cli
