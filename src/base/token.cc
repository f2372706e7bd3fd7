#include "holdfast/token.h"

#include <cstdio>

#include "holdfast/detail/number.h"

namespace holdfast {

std::string Token::to_string() const {
  char text[40];
  std::snprintf(text, sizeof text, "%010u.%020llu", epoch,
                static_cast<unsigned long long>(counter));
  return text;
}

std::optional<Token> Token::parse(std::string_view text) {
  const auto dot = text.find('.');
  const bool has_epoch = dot != std::string_view::npos;
  const auto counter = detail::parse_number<std::uint64_t>(text.substr(has_epoch ? dot + 1 : 0));
  const auto epoch =
      has_epoch ? detail::parse_number<std::uint32_t>(text.substr(0, dot)) : std::uint32_t{0};
  if (!counter || !epoch) return std::nullopt;
  return Token{*epoch, *counter};
}

}  // namespace holdfast
