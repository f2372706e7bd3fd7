#include "src/stores/redis/doctor/facts.h"

#include <charconv>

namespace holdfast::stores::redis {

void read_info(std::string_view text, Facts& facts) {
  while (!text.empty()) {
    const std::size_t end = text.find("\r\n");
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 2);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || line.front() == '#') continue;
    facts.emplace(line.substr(0, colon), line.substr(colon + 1));
  }
}

void read_config(const Reply& reply, Facts& facts) {
  for (std::size_t i = 0; i + 1 < reply.items.size(); i += 2) {
    facts["config " + reply.items[i].text] = reply.items[i + 1].text;
  }
}

std::string_view fact(const Facts& facts, std::string_view name) {
  const auto found = facts.find(name);
  return found == facts.end() ? std::string_view() : std::string_view(found->second);
}

long number_in(std::string_view text) {
  long value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

bool is_refusal(const Error& error) {
  return error.code() == Errc::kPermissionDenied || error.code() == Errc::kUnsupported;
}

std::string why_not(const Error& error, const char* command) {
  if (error.code() == Errc::kPermissionDenied)
    return std::string("this user may not ask ") + command;
  if (error.code() == Errc::kUnsupported) {
    return std::string("the server has no ") + command + " (disabled or renamed)";
  }
  return std::string(command) + " was not answered: " + error.message();
}

}  // namespace holdfast::stores::redis
