#include "src/stores/zookeeper/nodes.h"

#include <algorithm>
#include <cstdio>

#include "holdfast/detail/number.h"
#include "holdfast/detail/percent.h"

namespace holdfast::stores::zookeeper {
namespace {

bool stays(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("-_.:,=+@~").find(c) != std::string_view::npos;
}

constexpr std::size_t kHexDigits = 32;
constexpr char kKazooWord[] = "__lock__";
constexpr char kCuratorLock[] = "lock-";
constexpr char kCuratorRead[] = "__READ__";
constexpr char kCuratorWrite[] = "__WRIT__";

// "_c_", a UUID in its usual form, "-" and a word; as the key of an exclusive or shared ticket.
std::optional<contend::Key> parse_curator(std::string_view text, std::string_view exclusive,
                                          std::string_view shared) {
  constexpr std::size_t kUuid = 36;
  if (!text.starts_with("_c_") || text.size() < 3 + kUuid + 1 || text[3 + kUuid] != '-') {
    return std::nullopt;
  }
  const std::string_view word = text.substr(3 + kUuid + 1);
  const bool reads = !shared.empty() && word == shared;
  if (!reads && word != exclusive) return std::nullopt;
  std::string id(text.substr(3, kUuid));
  std::erase(id, '-');
  return contend::parse_key(id + (reads ? "-s" : "-x"));
}

std::optional<contend::Key> parse_prefix(std::string_view text, Recipe recipe) {
  switch (recipe) {
    case Recipe::kOwn:
      if (text.empty() || text.back() != '-') return std::nullopt;
      return contend::parse_key(text.substr(0, text.size() - 1));
    case Recipe::kCurator: return parse_curator(text, kCuratorLock, {});
    case Recipe::kCuratorReadWrite: return parse_curator(text, kCuratorWrite, kCuratorRead);
    case Recipe::kKazoo:
      if (!text.ends_with(kKazooWord) || text.size() < kHexDigits) return std::nullopt;
      return contend::parse_key(std::string(text.substr(0, text.size() - sizeof kKazooWord + 1)) +
                                "-x");
  }
  return std::nullopt;
}

}  // namespace

std::string encode_name(std::string_view name) {
  // A node's name does not begin with a dot.
  const bool dot = name.starts_with('.');
  return (dot ? "%2E" : "") + detail::percent_encode(name.substr(dot ? 1 : 0), stays);
}

std::optional<std::string> decode_name(std::string_view node) {
  auto name = detail::percent_decode(node);
  if (!name || name->empty() || encode_name(*name) != node) return std::nullopt;
  return name;
}

bool speaks(Recipe recipe, const contend::Key& key) {
  if (recipe == Recipe::kOwn || key.shape == contend::Shape::kExclusive) return true;
  return recipe == Recipe::kCuratorReadWrite && key.shape == contend::Shape::kShared;
}

std::string prefix_of(const contend::Key& key, Recipe recipe) {
  if (recipe == Recipe::kOwn) return contend::to_text(key) + "-";
  std::string id = contend::to_text(key).substr(0, kHexDigits);
  if (recipe == Recipe::kKazoo) return id + kKazooWord;
  for (const std::size_t at : {8U, 13U, 18U, 23U}) id.insert(at, 1, '-');
  const bool shared = key.shape == contend::Shape::kShared;
  return "_c_" + id + "-" +
         (recipe == Recipe::kCurator ? kCuratorLock
          : shared                   ? kCuratorRead
                                     : kCuratorWrite);
}

std::string node_of(const contend::QueueEntry& place, Recipe recipe) {
  char number[16];
  std::snprintf(number, sizeof number, "%010d",
                static_cast<std::int32_t>(static_cast<std::uint32_t>(place.order)));
  return prefix_of(place.key, recipe) + number;
}

std::optional<contend::QueueEntry> parse_node(std::string_view node, Recipe recipe) {
  std::size_t from = node.find_last_not_of("0123456789");
  if (from == std::string_view::npos || from + 1 == node.size()) return std::nullopt;
  // The number has a sign where a '-' stands that the prefix does not end with.
  const bool dash = recipe == Recipe::kOwn || recipe == Recipe::kCurator;
  const bool negative = node[from] == '-' && (!dash || (from > 0 && node[from - 1] == '-'));
  if (!negative) ++from;
  const auto number = detail::parse_number<std::int32_t>(node.substr(from));
  if (!number) return std::nullopt;
  const auto key = parse_prefix(node.substr(0, from), recipe);
  if (!key) return std::nullopt;
  contend::QueueEntry place;
  place.key = *key;
  place.order = static_cast<std::uint32_t>(*number);
  return place;
}

bool is_contender(std::string_view node) {
  constexpr std::size_t kDigits = 10;
  return node.size() >= kDigits &&
         node.find_first_not_of("0123456789", node.size() - kDigits) == std::string_view::npos;
}

bool is_path(std::string_view name) {
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    if (part.empty() || part == "." || part == "..") return false;
    if (at == 0 && (part == "hf1" || part == "zookeeper")) return false;
    at = end + 1;
  }
  return true;
}

std::size_t voters_in(std::string_view config) {
  std::size_t voters = 0;
  while (!config.empty()) {
    const std::string_view line = config.substr(0, config.find('\n'));
    config.remove_prefix(std::min(config.size(), line.size() + 1));
    const bool server = line.starts_with("server.");
    if (server && line.find(":observer") == std::string_view::npos) ++voters;
  }
  return voters;
}

void sort_queue(std::vector<contend::QueueEntry>& queue) {
  std::sort(queue.begin(), queue.end(), [](const auto& a, const auto& b) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(a.order) -
                                     static_cast<std::uint32_t>(b.order)) < 0;
  });
}

}  // namespace holdfast::stores::zookeeper
