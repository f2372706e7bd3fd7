#include "src/port/store_url.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "holdfast/detail/percent.h"

namespace holdfast::port {
namespace {

Error bad(std::string what) { return {Errc::kInvalidArgument, std::move(what)}; }

bool is_scheme(std::string_view text) {
  if (text.empty() || std::isalpha(static_cast<unsigned char>(text[0])) == 0) return false;
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '+' || c == '-' || c == '.';
  });
}

Result<void> split_options(std::string_view query, StoreUrl& url) {
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), part.size() + 1));
    if (part.empty()) continue;
    const auto equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return bad("store URL: write each option as key=value");
    }
    auto key = percent_decode(part.substr(0, equals));
    if (!key) return key.error();
    auto value = percent_decode(part.substr(equals + 1));
    if (!value) return value.error();
    const bool repeated = std::any_of(url.options.begin(), url.options.end(),
                                      [&](const auto& option) { return option.first == *key; });
    if (repeated && *key != "chain") return bad("store URL: option '" + *key + "' stands twice");
    url.options.emplace_back(*std::move(key), *std::move(value));
  }
  return {};
}

bool is_secret(std::string_view key) {
  return key == "password" || key == "token" || key == "secret" || key == "user";
}

// `special`: characters that would mean something else when it is read again.
std::string encoded(std::string_view text, std::string_view special) {
  return detail::percent_encode(text, [=](char c) { return !detail::is_one_of(c, special); });
}

struct Unit {
  std::string_view name;
  std::int64_t milliseconds;
};
constexpr Unit kUnits[] = {
    {"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}};

constexpr std::int64_t kLongest = std::int64_t{366} * 86'400'000;

// One "12.5s" from the front of `text`, rounded up to milliseconds; -1: not one.
std::int64_t take_part(std::string_view& text) {
  std::size_t digits = 0;
  while (digits < text.size() &&
         (std::isdigit(static_cast<unsigned char>(text[digits])) != 0 || text[digits] == '.')) {
    ++digits;
  }
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits, number);
  if (digits == 0 || error != std::errc{} || end != text.data() + digits) return -1;
  text.remove_prefix(digits);
  std::size_t letters = 0;
  while (letters < text.size() && std::isalpha(static_cast<unsigned char>(text[letters])) != 0) {
    ++letters;
  }
  for (const Unit& unit : kUnits) {
    if (text.substr(0, letters) != unit.name) continue;
    text.remove_prefix(letters);
    const double exact = number * static_cast<double>(unit.milliseconds);
    if (exact > static_cast<double>(kLongest)) return -1;
    const auto whole = static_cast<std::int64_t>(exact);
    return static_cast<double>(whole) < exact ? whole + 1 : whole;
  }
  return -1;
}

}  // namespace

Result<std::string> percent_decode(std::string_view text) {
  auto out = detail::percent_decode(text);
  if (!out) {
    return bad("store URL: '%' must be followed by two hexadecimal digits (write %25 for a '%')");
  }
  if (out->find('\0') != std::string::npos) return bad("store URL: %00 is not allowed");
  return *std::move(out);
}

Result<StoreUrl> StoreUrl::parse(std::string_view text) {
  if (text.size() > 4096) return bad("store URL: longer than 4096 bytes");
  // The name of a file would end there.
  if (text.find('\0') != std::string_view::npos) return bad("store URL: a NUL is not allowed");
  const auto colon = text.find(':');
  if (colon == std::string_view::npos || !is_scheme(text.substr(0, colon))) {
    return bad(
        "store URL: it must begin with a scheme, such as sqlite:///path/to/locks.db or memory:");
  }
  StoreUrl url;
  url.scheme = std::string(text.substr(0, colon));
  std::transform(url.scheme.begin(), url.scheme.end(), url.scheme.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string_view rest = text.substr(colon + 1);
  const auto question = rest.find('?');
  const std::string_view query =
      question == std::string_view::npos ? std::string_view() : rest.substr(question + 1);
  rest = rest.substr(0, question);
  if (rest.starts_with("//")) {
    url.has_authority = true;
    rest.remove_prefix(2);
    const auto slash = std::min(rest.find('/'), rest.size());
    url.authority = std::string(rest.substr(0, slash));
    rest.remove_prefix(slash);
  }
  if (rest.find('#') != std::string_view::npos || query.find('#') != std::string_view::npos) {
    return bad(
        "store URL: no part after a '#' is allowed (write %23 for a '#' that belongs to it)");
  }
  auto path = percent_decode(rest);
  if (!path) return path.error();
  url.path = *std::move(path);
  if (auto split = split_options(query, url); !split) return split.error();
  return url;
}

std::optional<std::string> StoreUrl::take(std::string_view key) {
  const auto found = std::find_if(options.begin(), options.end(),
                                  [&](const auto& option) { return option.first == key; });
  if (found == options.end()) return std::nullopt;
  std::string value = std::move(found->second);
  options.erase(found);
  return value;
}

std::string StoreUrl::place() const {
  const auto at = authority.rfind('@');
  return scheme + "://" + authority.substr(at == std::string::npos ? 0 : at + 1) + path;
}

std::string StoreUrl::redacted() const {
  std::string out = scheme + ":";
  // A password without its percent-encoding puts its parts in places where no secret is expected.
  // Then nothing behind the scheme is shown.
  const bool split_secret =
      std::count(authority.begin(), authority.end(), '@') > 1 ||
      path.find('@') != std::string::npos ||
      std::any_of(options.begin(), options.end(), [](const auto& option) {
        return option.first.find('@') != std::string::npos ||
               (!is_secret(option.first) && option.second.find('@') != std::string::npos);
      });
  if (split_secret) return out + "//***";
  const auto at = authority.rfind('@');
  const std::string host = at == std::string::npos ? authority : authority.substr(at + 1);
  if (!authority.empty() || path.starts_with('/')) out += "//" + host;
  out += encoded(path, "#%?");
  char separator = '?';
  for (const auto& [key, value] : options) {
    out += separator;
    out += encoded(key, "#%&=") + "=" + encoded(is_secret(key) ? "***" : value, "#%&");
    separator = '&';
  }
  return out;
}

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  // Text behind a wrong separator may be a password, so it is not shown.
  std::string shown(text.substr(0, std::min<std::size_t>(40, text.find_first_of(";&=@?"))));
  if (shown.size() < text.size()) shown += "...";
  std::replace_if(
      shown.begin(), shown.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
  std::int64_t total = 0;
  const bool bare = !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isdigit(c) != 0;
  });
  std::string with_unit;
  if (bare) {
    with_unit = std::string(text) + "ms";
    text = with_unit;
  }
  bool good = !text.empty();
  while (good && !text.empty()) {
    const std::int64_t part = take_part(text);
    total += part;
    good = part >= 0 && total <= kLongest;
  }
  if (!good) {
    return bad("'" + shown +
               "' is not a duration: write 250ms, 30s, 1.5s, 2m or 1h30m (at most 366 days)");
  }
  return std::chrono::milliseconds(total);
}

}  // namespace holdfast::port
