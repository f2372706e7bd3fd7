#include "src/cli/options/duration.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>

#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kLongest = std::int64_t{100} * 365 * 86'400'000;
constexpr std::int64_t kScale = 1'000'000'000;  // Fractions are read in billionths, rounded up.

struct Unit {
  std::string_view name;
  std::int64_t millis;
};
constexpr std::array<Unit, 5> kUnits{
    {{"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1'000}, {"ms", 1}}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

Error garbage(std::string_view text, std::string_view why) {
  return {Errc::kInvalidArgument,
          in_quotes(shortened(std::string(text))) + " is not a duration" + std::string(why) +
              ": write for example 30s, 1.5s, 250ms, 2m or 1h30m (a bare number means seconds)"};
}

// One "12.5s" at the front of what is left.
struct Part {
  std::int64_t whole = 0;
  std::int64_t billionths = 0;
  bool fraction = false;
  std::size_t unit = 0;
};

// Reads digits; nullopt: none, or more than a hundred years of anything.
std::optional<std::int64_t> read_whole(std::string_view& rest) {
  if (rest.empty() || !is_digit(rest.front())) return std::nullopt;
  std::int64_t value = 0;
  while (!rest.empty() && is_digit(rest.front())) {
    value = value > kLongest ? value : value * 10 + (rest.front() - '0');
    rest.remove_prefix(1);
  }
  return value;
}

bool read_fraction(std::string_view& rest, Part& part) {
  if (rest.empty() || rest.front() != '.') return true;
  rest.remove_prefix(1);
  part.fraction = true;
  if (rest.empty() || !is_digit(rest.front())) return false;
  bool more = false;
  for (std::int64_t scale = kScale / 10; !rest.empty() && is_digit(rest.front()); scale /= 10) {
    part.billionths += scale * (rest.front() - '0');
    more = more || (scale == 0 && rest.front() != '0');
    rest.remove_prefix(1);
  }
  if (more) ++part.billionths;
  return true;
}

bool read_unit(std::string_view& rest, Part& part) {
  std::size_t letters = 0;
  while (letters < rest.size() && !is_digit(rest[letters])) ++letters;
  const std::string_view name = rest.substr(0, letters);
  rest.remove_prefix(letters);
  for (std::size_t i = 0; i < kUnits.size(); ++i) {
    if (kUnits[i].name == name) return part.unit = i, true;
  }
  return false;
}

}  // namespace

Result<milliseconds> parse_duration(std::string_view text) {
  if (!text.empty() && text.front() == '-') return garbage(text, " (it is negative)");
  std::string_view rest = text;
  std::int64_t total = 0;
  std::optional<std::size_t> last;
  bool ended = false;
  do {
    Part part;
    const auto whole = read_whole(rest);
    if (!whole || ended || !read_fraction(rest, part)) return garbage(text, "");
    part.whole = *whole;
    const bool bare = rest.empty();
    if (bare && last) return garbage(text, " (the last number has no unit)");
    if (bare) {
      part.unit = 3;
    } else if (!read_unit(rest, part)) {
      return garbage(text, "");
    }
    if (last && part.unit <= *last) return garbage(text, " (larger units come first, each once)");
    last = part.unit;
    ended = part.fraction;
    const std::int64_t millis = kUnits[part.unit].millis;
    if (part.whole > kLongest / millis) return garbage(text, " of less than a hundred years");
    total += part.whole * millis + (part.billionths * millis + kScale - 1) / kScale;
    if (total > kLongest) return garbage(text, " of less than a hundred years");
  } while (!rest.empty());
  return milliseconds(total);
}

std::string format_duration(milliseconds duration) {
  const std::int64_t ms = duration.count();
  if (ms < 0) return "0s";
  char text[48];
  const auto print = [&text](const char* format, auto... values) {
    std::snprintf(text, sizeof text, format, values...);
    return std::string(text);
  };
  const auto number = [](std::int64_t value) { return static_cast<long long>(value); };
  if (ms < 1'000) return print("%lldms", number(ms));
  if (ms < 10'000 && ms % 1'000 >= 100) {
    return print("%lld.%llds", number(ms / 1'000), number(ms % 1'000 / 100));
  }
  const std::int64_t s = ms / 1'000;
  if (s < 60) return print("%llds", number(s));
  if (s < 3'600) return print("%lldm%02llds", number(s / 60), number(s % 60));
  if (s < 86'400) return print("%lldh%02lldm", number(s / 3'600), number(s / 60 % 60));
  return print("%lldd%02lldh", number(s / 86'400), number(s / 3'600 % 24));
}

}  // namespace holdfast::cli
