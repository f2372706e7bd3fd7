#include "holdfast/token.h"

#include <charconv>
#include <cstdio>

namespace holdfast {
namespace {

template <typename T>
bool read(std::string_view text, T& out) {
  if (text.empty()) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, 10);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

std::string Token::to_string() const {
  char text[40];
  std::snprintf(text, sizeof text, "%010u.%020llu", epoch,
                static_cast<unsigned long long>(counter));
  return text;
}

std::optional<Token> Token::parse(std::string_view text) {
  Token token;
  const auto dot = text.find('.');
  if (dot == std::string_view::npos) {
    if (!read(text, token.counter)) return std::nullopt;
    return token;
  }
  if (!read(text.substr(0, dot), token.epoch) || !read(text.substr(dot + 1), token.counter)) {
    return std::nullopt;
  }
  return token;
}

}  // namespace holdfast
