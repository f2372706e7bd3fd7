#include "src/stores/consul/keys.h"

#include "src/port/store_url.h"

namespace holdfast::stores::consul {
namespace {

bool is_lost(std::string_view segment) { return segment == "." || segment == ".."; }

std::string encoded(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  // A URL's path would lose such a segment: libcurl takes it out, and so does Consul.
  const bool lost = is_lost(name);
  std::string text;
  text.reserve(name.size());
  for (const char each : name) {
    const auto byte = static_cast<unsigned char>(each);
    const bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                       (byte >= '0' && byte <= '9') || each == '-' || each == '_' ||
                       (each == '.' && !lost) || each == ':' || each == '@' || each == '=' ||
                       each == '+' || each == ',';
    if (plain) {
      text += each;
    } else {
      text += {'%', kDigits[byte / 16], kDigits[byte % 16]};
    }
  }
  return text;
}

}  // namespace

std::string Keys::path_of(std::string_view lock) const { return shared_ + std::string(lock); }

std::string Keys::folder(std::string_view lock) const {
  return locks_ + "l/" + encoded(path_of(lock)) + "/";
}

std::string Keys::value(std::string_view lock) const {
  return locks_ + "v/" + encoded(path_of(lock));
}

std::string Keys::locks(std::string_view prefix) const {
  const std::string path = path_of(prefix);
  // The lock of that name has another key than those whose names go on behind it.
  return locks_ + "l/" + (is_lost(path) ? std::string() : encoded(path));
}

std::optional<std::string> Keys::lock_of(std::string_view folder) const {
  const std::string begins = locks_ + "l/";
  if (!folder.starts_with(begins) || !folder.ends_with('/')) return std::nullopt;
  const std::string_view name = folder.substr(begins.size(), folder.size() - begins.size() - 1);
  auto path = port::percent_decode(name);
  // Only what we would write ourselves.
  if (!path || encoded(*path) != name) return std::nullopt;
  if (path->size() <= shared_.size() || !path->starts_with(shared_)) return std::nullopt;
  return path->substr(shared_.size());
}

}  // namespace holdfast::stores::consul
