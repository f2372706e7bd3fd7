#include "src/stores/zookeeper/nodes.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace holdfast::stores::zookeeper {
namespace {

bool stays(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("-_.:,=+@~").find(c) != std::string_view::npos;
}

}  // namespace

std::string encode_name(std::string_view name) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string node;
  for (const char c : name) {
    if (stays(c) && !(c == '.' && node.empty())) {
      node += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    node += '%';
    node += kDigits[byte >> 4];
    node += kDigits[byte & 15];
  }
  return node;
}

std::optional<std::string> decode_name(std::string_view node) {
  std::string name;
  for (std::size_t i = 0; i < node.size(); ++i) {
    if (node[i] != '%') {
      name += node[i];
      continue;
    }
    unsigned byte = 0;
    if (i + 2 >= node.size()) return std::nullopt;
    const auto [end, error] = std::from_chars(node.data() + i + 1, node.data() + i + 3, byte, 16);
    if (error != std::errc{} || end != node.data() + i + 3) return std::nullopt;
    name += static_cast<char>(byte);
    i += 2;
  }
  if (name.empty() || encode_name(name) != node) return std::nullopt;
  return name;
}

std::string node_of(const contend::Place& place) {
  char number[16];
  std::snprintf(number, sizeof number, "%010d",
                static_cast<std::int32_t>(static_cast<std::uint32_t>(place.order)));
  return contend::to_text(place.key) + "-" + number;
}

std::optional<contend::Place> parse_node(std::string_view node) {
  std::size_t dash = node.rfind('-');
  if (dash == std::string_view::npos || dash == 0) return std::nullopt;
  if (node[dash - 1] == '-') --dash;
  std::int32_t number = 0;
  const auto [end, error] =
      std::from_chars(node.data() + dash + 1, node.data() + node.size(), number);
  if (error != std::errc{} || end != node.data() + node.size()) return std::nullopt;
  auto key = contend::parse_key(node.substr(0, dash));
  if (!key) return std::nullopt;
  contend::Place place;
  place.key = *key;
  place.order = static_cast<std::uint32_t>(number);
  return place;
}

void sort_queue(std::vector<contend::Place>& queue) {
  std::sort(queue.begin(), queue.end(), [](const auto& a, const auto& b) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(a.order) -
                                     static_cast<std::uint32_t>(b.order)) < 0;
  });
}

}  // namespace holdfast::stores::zookeeper
