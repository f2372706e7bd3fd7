#include "src/stores/redis/cluster/cluster_view.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "holdfast/detail/number.h"
#include "src/stores/redis/protocol/slot.h"

namespace holdfast::stores::redis {
namespace {

Error unknown_form(std::string_view text) {
  return {Errc::kCorruptState, "the server describes its cluster in an unknown form: '" +
                                   std::string(text.substr(0, 80)) + "'"};
}

// Takes the text up to `end`, and `end`, off `text`.
std::string_view take(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  const std::string_view taken = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return taken;
}

bool has(std::string_view flags, std::string_view flag) {
  while (!flags.empty()) {
    if (take(flags, ',') == flag) return true;
  }
  return false;
}

// "0-5460", "7"; nullopt for "[93->-...": that slot is about to move.
std::optional<std::pair<std::uint16_t, std::uint16_t>> slots_in(std::string_view text) {
  const auto first = detail::parse_number<std::uint16_t>(take(text, '-'), 10);
  const auto last = text.empty() ? first : detail::parse_number<std::uint16_t>(text, 10);
  if (!first || !last || *first > *last || *last >= kSlots) return std::nullopt;
  return std::pair(*first, *last);
}

// "host:port", "host:port@bus", "host:port@bus,name".
Result<NodeAddress> parse_node_address(std::string_view text) {
  const std::string_view whole = text;
  std::string_view address = take(text, ',');
  const std::string_view name = take(text, ',');
  address = address.substr(0, address.find('@'));
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return unknown_form(whole);
  const auto port = detail::parse_number<std::uint16_t>(address.substr(colon + 1), 10);
  if (!port || *port == 0) return unknown_form(whole);
  std::string_view host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  // Redis 7.2 lists more after the name, as "key=value". "?": the node does not know its own.
  const bool named = name.find('=') == std::string_view::npos;
  return NodeAddress{std::string(host == "?" ? "" : host), *port, std::string(named ? name : "")};
}

// "<id> <address> <flags> <primary> <ping> <pong> <epoch> <link> <slots>..."
Result<std::optional<ClusterNode>> parse_line(std::string_view line) {
  const std::string_view whole = line;
  take(line, ' ');
  const std::string_view address = take(line, ' ');
  const std::string_view flags = take(line, ' ');
  for (int i = 0; i < 3; ++i) take(line, ' ');
  const auto epoch = detail::parse_number<std::uint64_t>(take(line, ' '), 10);
  if (!epoch || flags.empty()) return unknown_form(whole);
  take(line, ' ');
  if (has(flags, "noaddr") || has(flags, "handshake")) return std::optional<ClusterNode>();
  auto place = parse_node_address(address);
  if (!place) return place.error();
  ClusterNode node;
  node.at = *std::move(place);
  node.epoch = *epoch;
  node.is_asked = has(flags, "myself");
  node.is_primary = has(flags, "master");
  node.failed = has(flags, "fail");
  while (!line.empty()) {
    const std::string_view slots = take(line, ' ');
    if (slots.empty() || slots.front() == '[') continue;
    const auto range = slots_in(slots);
    if (!range) return unknown_form(whole);
    node.slots.push_back(*range);
  }
  return std::optional<ClusterNode>(std::move(node));
}

}  // namespace

Result<std::vector<ClusterNode>> parse_cluster_nodes(std::string_view text) {
  const std::string_view whole = text;
  std::vector<ClusterNode> nodes;
  while (!text.empty()) {
    std::string_view line = take(text, '\n');
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    auto node = parse_line(line);
    if (!node) return node.error();
    if (*node) nodes.push_back(**std::move(node));
  }
  if (nodes.empty()) return unknown_form(whole);
  return nodes;
}

Result<NodeAddress> redirected_to(std::string_view text) {
  take(text, ' ');
  take(text, ' ');
  return parse_node_address(take(text, ' '));
}

}  // namespace holdfast::stores::redis
