// The fencing token that comes with every grant.
//
// Guarantee: strictly larger with every exclusive grant of the same lock name, over release,
// expiry and restart, within the bound that the store's page states.
// Not guaranteed: an order between different lock names; that tokens are consecutive.
// The resource that the lock protects must refuse a token below the highest exclusive token it has
// seen: docs/guide/fencing.md.
#pragma once

#include <compare>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/export.h"

namespace holdfast {

struct Token {
  std::uint32_t epoch = 0;  // Changes only when a store changes hands (fail-over).
  std::uint64_t counter = 0;

  // "eeeeeeeeee.cccccccccccccccccccc": decimal, both parts zero-padded to their full width (10 and
  // 20 digits), so that tokens also compare as text.
  HOLDFAST_EXPORT std::string to_string() const;

  // Reads what to_string() writes; also without padding, or the counter alone (epoch 0).
  // nullopt: not a token.
  HOLDFAST_EXPORT static std::optional<Token> parse(std::string_view text);

  friend auto operator<=>(const Token&, const Token&) = default;

  // Writes to_string().
  HOLDFAST_EXPORT friend std::ostream& operator<<(std::ostream& out, const Token& token);
};

}  // namespace holdfast
