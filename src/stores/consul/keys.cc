#include "src/stores/consul/keys.h"

#include "src/port/store_url.h"

namespace holdfast::stores::consul {
namespace {

std::string encoded(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string text;
  text.reserve(name.size());
  for (const char each : name) {
    const auto byte = static_cast<unsigned char>(each);
    const bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                       (byte >= '0' && byte <= '9') || each == '-' || each == '_' || each == '.' ||
                       each == ':' || each == '@' || each == '=' || each == '+' || each == ',';
    if (plain) {
      text += each;
    } else {
      text += {'%', kDigits[byte / 16], kDigits[byte % 16]};
    }
  }
  return text;
}

}  // namespace

std::string Keys::value(std::string_view lock) const { return prefix_ + "v/" + encoded(lock); }

std::string Keys::locks(std::string_view prefix) const { return prefix_ + "l/" + encoded(prefix); }

std::optional<std::string> Keys::lock_of(std::string_view folder) const {
  const std::string begins = prefix_ + "l/";
  if (!folder.starts_with(begins) || !folder.ends_with('/')) return std::nullopt;
  const std::string_view name = folder.substr(begins.size(), folder.size() - begins.size() - 1);
  auto lock = port::percent_decode(name);
  // Only what we would write ourselves.
  if (!lock || lock->empty() || encoded(*lock) != name) return std::nullopt;
  return *std::move(lock);
}

}  // namespace holdfast::stores::consul
