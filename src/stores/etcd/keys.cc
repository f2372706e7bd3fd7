#include "src/stores/etcd/keys.h"

#include "holdfast/detail/number.h"
#include "holdfast/detail/percent.h"
#include "src/base/random.h"

namespace holdfast::stores::etcd {
namespace {

std::string escaped(std::string_view name) {
  return detail::percent_encode(name, [](char c) { return c != '%' && c != '/'; });
}

// Accepts only the spelling that we would write, so one lock never has two keys.
std::optional<std::string> unescaped(std::string_view text) {
  auto name = detail::percent_decode(text);
  if (name && escaped(*name) != text) name.reset();
  return name;
}

}  // namespace

Keys::Keys(const std::string& prefix, bool foreign_recipe)
    : root_(prefix.empty() ? "" : prefix + "/"), foreign_(foreign_recipe) {}

Result<void> Keys::check_name(std::string_view lock) const {
  const std::string slashed = "/" + root_ + std::string(lock) + "/";
  if (!foreign_ || slashed.find("/hf1/") == std::string::npos) return {};
  return Error(Errc::kInvalidArgument,
               "with recipe=etcd no segment of a lock's path is 'hf1': Holdfast's own keys "
               "are there, and would be taken for contenders");
}

std::string Keys::contenders(std::string_view lock) const {
  return foreign_ ? root_ + std::string(lock) + "/" : record(lock) + "/";
}

std::string Keys::folder(std::string_view lock) const { return folders(lock) + "/"; }
std::string Keys::record(std::string_view lock) const { return folder(lock) + "c"; }
std::string Keys::value(std::string_view lock) const { return folder(lock) + "v"; }

std::string Keys::session(std::int64_t lease) const { return root_ + "hf1/s/" + lease_text(lease); }

std::string Keys::notify(std::string_view tag) const { return root_ + "hf1/k/" + std::string(tag); }

std::string Keys::kept(std::string_view record) const {
  return root_ + "hf1/r/" + escaped(record);
}

std::string Keys::folders(std::string_view name_prefix) const {
  return root_ + "hf1/l/" + escaped(name_prefix);
}

std::optional<Keys::Folder> Keys::folder_of(std::string_view key) const {
  const std::string all = folders("");
  if (!key.starts_with(all)) return std::nullopt;
  const std::string_view rest = key.substr(all.size());
  const auto slash = rest.find('/');
  if (slash == std::string_view::npos || slash == 0) return std::nullopt;
  auto lock = unescaped(rest.substr(0, slash));
  if (!lock) return std::nullopt;
  return Folder{*std::move(lock), behind(std::string(key.substr(0, all.size() + slash + 1)))};
}

std::string behind(std::string prefix) {
  // No key of ours ends with the byte 0xFF.
  prefix.back() = static_cast<char>(prefix.back() + 1);
  return prefix;
}

std::string lease_text(std::int64_t lease) {
  return base::to_hex(static_cast<std::uint64_t>(lease), 0).substr(0, 16);
}

std::optional<std::int64_t> parse_lease(std::string_view text) {
  const auto number = detail::parse_number<std::uint64_t>(text, 16);
  if (text.size() != 16 || !number) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

}  // namespace holdfast::stores::etcd
