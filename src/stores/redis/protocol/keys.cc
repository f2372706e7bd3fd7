#include "src/stores/redis/protocol/keys.h"

#include <algorithm>

#include "holdfast/detail/percent.h"
#include "src/stores/redis/protocol/reply.h"

namespace holdfast::stores::redis {
namespace {

constexpr std::string_view kHead = "hf1:{";

bool stays(char c) { return c != '%' && c != '{' && c != '}'; }

std::string escaped(std::string_view name) { return detail::percent_encode(name, stays); }

}  // namespace

void append_record_key(std::string& wire, std::string_view name) {
  if (!std::all_of(name.begin(), name.end(), stays)) return append_word(wire, record_key(name));
  append_word(wire, {kHead, name, "}"});
}

std::string record_key(std::string_view name) { return std::string(kHead) + escaped(name) + "}"; }

std::string value_key(std::string_view name) { return record_key(name) + ":v"; }

std::string read_of(std::string_view name) {
  const std::string key = value_key(name);
  const std::string_view words[] = {"GET", key};
  std::string wire;
  append_command(wire, words);
  return wire;
}

std::string channel_of(std::string_view client) { return "hf1:@" + std::string(client); }

std::optional<std::string> name_of_key(std::string_view key) {
  if (key.size() < kHead.size() + 2 || !key.starts_with(kHead) || key.back() != '}') {
    return std::nullopt;
  }
  key = key.substr(kHead.size(), key.size() - kHead.size() - 1);
  auto name = detail::percent_decode(key);
  // Accepts only the spelling that we would write, so one lock never has two keys.
  if (!name || escaped(*name) != key) return std::nullopt;
  return name;
}

std::string record_pattern(std::string_view prefix) {
  std::string pattern(kHead);
  for (const char c : escaped(prefix)) {
    if (c == '*' || c == '?' || c == '[' || c == ']' || c == '^' || c == '\\') pattern += '\\';
    pattern += c;
  }
  return pattern + "*}";
}

}  // namespace holdfast::stores::redis
