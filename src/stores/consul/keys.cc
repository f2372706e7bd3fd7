#include "src/stores/consul/keys.h"

#include "holdfast/detail/percent.h"

namespace holdfast::stores::consul {
namespace {

bool is_lost(std::string_view segment) { return segment == "." || segment == ".."; }

std::string encoded(std::string_view name) {
  // A URL's path would lose such a segment, because libcurl and Consul remove it.
  const bool lost = is_lost(name);
  return detail::percent_encode(name, [lost](char c) {
    return detail::is_alphanumeric(c) || (c == '.' && !lost) || detail::is_one_of(c, "-_:@=+,");
  });
}

}  // namespace

std::string Keys::path_of(std::string_view lock) const { return shared_ + std::string(lock); }

std::string Keys::folder(std::string_view lock) const {
  return locks_ + "l/" + encoded(path_of(lock)) + "/";
}

std::string Keys::value(std::string_view lock) const {
  return locks_ + "v/" + encoded(path_of(lock));
}

std::string Keys::kept(std::string_view record) const { return prefix_ + "k/" + encoded(record); }

std::string Keys::locks(std::string_view prefix) const {
  const std::string path = path_of(prefix);
  // The key of the lock with just this name differs from the keys of longer names.
  return locks_ + "l/" + (is_lost(path) ? std::string() : encoded(path));
}

std::optional<std::string> Keys::lock_of(std::string_view folder) const {
  const std::string begins = locks_ + "l/";
  if (!folder.starts_with(begins) || !folder.ends_with('/')) return std::nullopt;
  const std::string_view name = folder.substr(begins.size(), folder.size() - begins.size() - 1);
  auto path = detail::percent_decode(name);
  // Accepts only the spelling that we would write, so one lock never has two keys.
  if (!path || encoded(*path) != name) return std::nullopt;
  if (path->size() <= shared_.size() || !path->starts_with(shared_)) return std::nullopt;
  return path->substr(shared_.size());
}

}  // namespace holdfast::stores::consul
