#include "src/cli/text/text.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <numeric>
#include <utility>

#include "holdfast/detail/utf8.h"

namespace holdfast::cli {
namespace {

std::string hex(const char* format, unsigned value) {
  char text[16];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// Terminals show these in two columns: East Asian Width W and F of the Unicode Standard, in blocks.
bool is_wide(std::uint32_t point) {
  constexpr std::pair<std::uint32_t, std::uint32_t> kBlocks[] = {
      {0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},  {0xac00, 0xd7a3},
      {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff01, 0xff60},  {0xffe0, 0xffe6},
      {0x1f300, 0x1f64f}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};
  return std::any_of(std::begin(kBlocks), std::end(kBlocks), [point](const auto& block) {
    return block.first <= point && point <= block.second;
  });
}

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const detail::CodePoint c = detail::front_code_point(text);
    if (c.length == 0) {
      out += hex("\\x%02x", static_cast<unsigned char>(text.front()));
      text.remove_prefix(1);
      continue;
    }
    if (!detail::is_control(c.value) && !detail::changes_direction(c.value)) {
      out += text.substr(0, c.length);
    } else {
      out += c.value < 0x80 ? hex("\\x%02x", c.value) : hex("\\u{%x}", c.value);
    }
    text.remove_prefix(c.length);
  }
  return out;
}

std::string in_quotes(std::string_view text) { return "'" + printable(text) + "'"; }

std::string shortened(std::string text, std::size_t most) {
  if (text.size() <= most + 3) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  text.resize(most);
  return text + "...";
}

std::size_t columns(std::string_view text) {
  std::size_t sum = 0;
  while (!text.empty()) {
    const detail::CodePoint front = detail::front_code_point(text);
    sum += is_wide(front.value) ? 2 : 1;
    text.remove_prefix(std::max<std::size_t>(front.length, 1));
  }
  return sum;
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t limit = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t d = distance(word, candidate);
    if (d >= limit || d >= candidate.size()) continue;
    limit = d;
    best = candidate;
  }
  return best;
}

namespace {

// The position after the quoted text that begins at `at`.
std::size_t behind_quotes(std::string_view toml, std::size_t at) {
  const char quote = toml[at];
  const std::string three(3, quote);
  const bool many_lines = toml.substr(at, 3) == three;
  for (at += many_lines ? 3 : 1; at < toml.size(); ++at) {
    if (toml[at] == '\\' && quote == '"') {
      ++at;
    } else if (many_lines && toml.substr(at, 3) == three) {
      return at + 3;
    } else if (!many_lines && (toml[at] == quote || toml[at] == '\n')) {
      return at + 1;
    }
  }
  return toml.size();
}

}  // namespace

bool has_endless_key(std::string_view toml) {
  constexpr std::size_t kMost = 32;
  std::size_t dots = 0;
  for (std::size_t at = 0; at < toml.size();) {
    const char letter = toml[at];
    if (letter == '"' || letter == '\'') {
      at = behind_quotes(toml, at);
      continue;
    }
    if (letter == '#') {
      at = std::min(toml.find('\n', at), toml.size());
      continue;
    }
    if (letter == '.' && ++dots >= kMost) return true;
    if (std::string_view("=,[]{}\n").find(letter) != std::string_view::npos) dots = 0;
    ++at;
  }
  return false;
}

std::string local_time(std::chrono::system_clock::time_point at) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(at);
  const std::time_t now = std::time(nullptr);
  std::tm then{};
  std::tm today{};
  localtime_r(&seconds, &then);
  localtime_r(&now, &today);
  const bool same_day = then.tm_year == today.tm_year && then.tm_yday == today.tm_yday;
  char text[40];
  const std::size_t n =
      std::strftime(text, sizeof text, same_day ? "%H:%M:%S" : "%b %d %H:%M", &then);
  return {text, n};
}

}  // namespace holdfast::cli
