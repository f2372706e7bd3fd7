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

}  // namespace

std::string encode_name(std::string_view name) {
  // ZooKeeper reserves "." and "..", so no node's name begins with a dot.
  const bool dot = name.starts_with('.');
  return (dot ? "%2E" : "") + detail::percent_encode(name.substr(dot ? 1 : 0), stays);
}

std::optional<std::string> decode_name(std::string_view node) {
  auto name = detail::percent_decode(node);
  if (!name || name->empty() || encode_name(*name) != node) return std::nullopt;
  return name;
}

std::string prefix_of(const contend::Key& key) { return contend::to_text(key) + "-"; }

std::string number_text(std::uint64_t order) {
  char number[16];
  std::snprintf(number, sizeof number, "%010d",
                static_cast<std::int32_t>(static_cast<std::uint32_t>(order)));
  return number;
}

std::string node_of(const contend::QueueEntry& place) {
  return prefix_of(place.key) + number_text(place.order);
}

std::optional<std::pair<std::string_view, std::uint32_t>> split_number(std::string_view node,
                                                                       bool dash) {
  std::size_t from = node.find_last_not_of("0123456789");
  if (from == std::string_view::npos || from + 1 == node.size()) return std::nullopt;
  // A '-' here is the number's sign, unless it is the one that ends the prefix.
  const bool negative = node[from] == '-' && (!dash || (from > 0 && node[from - 1] == '-'));
  if (!negative) ++from;
  const auto number = detail::parse_number<std::int32_t>(node.substr(from));
  if (!number) return std::nullopt;
  return std::pair(node.substr(0, from), static_cast<std::uint32_t>(*number));
}

std::optional<contend::QueueEntry> parse_node(std::string_view node) {
  const auto numbered = split_number(node, /*dash=*/true);
  if (!numbered || !numbered->first.ends_with('-')) return std::nullopt;
  const auto key = contend::parse_key(numbered->first.substr(0, numbered->first.size() - 1));
  if (!key) return std::nullopt;
  contend::QueueEntry place;
  place.key = *key;
  place.order = numbered->second;
  return place;
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
