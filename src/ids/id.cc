#include "holdfast/ids/id.h"

#include <array>
#include <ostream>

#include "holdfast/detail/number.h"
#include "src/base/random.h"

namespace holdfast::ids {
namespace {

constexpr std::string_view kBase32 = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
constexpr std::size_t kUlidLength = 26;
constexpr std::size_t kUuidLength = 36;
constexpr std::array<std::size_t, 4> kDashes{8, 13, 18, 23};

std::string ulid_text(std::uint64_t high, std::uint64_t low) {
  std::string text(kUlidLength, '0');
  for (std::size_t at = kUlidLength; at-- > 0;) {
    text[at] = kBase32[low & 31];
    low = low >> 5 | high << 59;
    high >>= 5;
  }
  return text;
}

std::optional<Id> parse_ulid(std::string_view text) {
  if (text.front() > '7') return std::nullopt;  // More than 128 bits.
  Id id{0, 0, IdForm::kUlid};
  for (const char c : text) {
    const char upper = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    const std::size_t digit = kBase32.find(upper);
    if (digit == kBase32.npos) return std::nullopt;
    id.high = id.high << 5 | id.low >> 59;
    id.low = id.low << 5 | digit;
  }
  return id;
}

std::optional<Id> parse_uuid(std::string_view text) {
  std::string digits;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool dash = std::find(kDashes.begin(), kDashes.end(), at) != kDashes.end();
    if (dash != (text[at] == '-')) return std::nullopt;
    if (!dash) digits += text[at];
  }
  const auto high = detail::parse_number<std::uint64_t>(digits.substr(0, 16), 16);
  const auto low = detail::parse_number<std::uint64_t>(digits.substr(16), 16);
  if (!high || !low) return std::nullopt;
  return Id{*high, *low, IdForm::kUuid};
}

}  // namespace

std::string Id::to_string() const {
  switch (form) {
    case IdForm::kNumber: return std::to_string(low);
    case IdForm::kUlid: return ulid_text(high, low);
    case IdForm::kUuid: {
      std::string text = base::to_hex(high, low);
      for (const std::size_t dash : kDashes) text.insert(dash, 1, '-');
      return text;
    }
  }
  return {};
}

std::optional<Id> Id::parse(std::string_view text) {
  if (text.size() == kUuidLength) return parse_uuid(text);
  if (text.size() == kUlidLength) return parse_ulid(text);
  const auto number = detail::parse_number<std::uint64_t>(text);
  if (!number || *number >> 63 != 0) return std::nullopt;
  return of(*number);
}

std::ostream& operator<<(std::ostream& out, const Id& id) { return out << id.to_string(); }

}  // namespace holdfast::ids
