#include "src/stores/redis/protocol/keys.h"

namespace holdfast::stores::redis {
namespace {

constexpr std::string_view kHead = "hf1:{";

void append_escaped(std::string& out, std::string_view name) {
  for (const char c : name) {
    switch (c) {
      case '%': out += "%25"; break;
      case '{': out += "%7B"; break;
      case '}': out += "%7D"; break;
      default: out += c;
    }
  }
}

std::optional<char> escaped_char(std::string_view code) {
  if (code == "%25") return '%';
  if (code == "%7B") return '{';
  if (code == "%7D") return '}';
  return std::nullopt;
}

}  // namespace

std::string record_key(std::string_view name) {
  std::string key;
  key.reserve(kHead.size() + name.size() + 1);
  key += kHead;
  append_escaped(key, name);
  key += '}';
  return key;
}

std::string value_key(std::string_view name) { return record_key(name) + ":v"; }

std::string channel_of(std::string_view client) { return "hf1:@" + std::string(client); }

std::optional<std::string> name_of_key(std::string_view key) {
  if (key.size() < kHead.size() + 2 || !key.starts_with(kHead) || key.back() != '}') {
    return std::nullopt;
  }
  key = key.substr(kHead.size(), key.size() - kHead.size() - 1);
  std::string name;
  for (std::size_t i = 0; i < key.size(); ++i) {
    if (key[i] == '{' || key[i] == '}') return std::nullopt;
    if (key[i] != '%') {
      name += key[i];
      continue;
    }
    const auto plain = escaped_char(key.substr(i, 3));
    if (!plain) return std::nullopt;
    name += *plain;
    i += 2;
  }
  return name;
}

std::string record_pattern(std::string_view prefix) {
  std::string escaped;
  append_escaped(escaped, prefix);
  std::string pattern(kHead);
  for (const char c : escaped) {
    if (c == '*' || c == '?' || c == '[' || c == ']' || c == '^' || c == '\\') pattern += '\\';
    pattern += c;
  }
  return pattern + "*}";
}

}  // namespace holdfast::stores::redis
