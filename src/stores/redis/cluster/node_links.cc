#include "src/stores/redis/cluster/node_links.h"

#include <array>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "src/port/url_parts.h"
#include "src/stores/redis/protocol/errors.h"
#include "src/stores/redis/transport/resolver.h"

namespace holdfast::stores::redis {
namespace {

using base::BootClock;
using base::BootInstant;

constexpr std::chrono::milliseconds kPause{20};
constexpr int kMostRedirections = 5;

}  // namespace

NodeLinks::NodeLinks(RemotePtr remote)
    : remote_(std::move(remote)), where_(remote_->address.display()) {
  for (const port::Endpoint& each : remote_->address.nodes) {
    node_at({each.host, each.port}, *remote_);
  }
}

Result<void> NodeLinks::open(BootInstant by) {
  std::string wire;
  append_command(wire, std::array<std::string_view, 2>{"CLUSTER", "NODES"});
  const std::vector<Node*> named = nodes_;
  std::optional<Error> failure;
  for (std::size_t i = 0; i < named.size(); ++i) {
    // One that does not answer leaves time for the others.
    const auto share = (by - BootClock::now()) / static_cast<std::int64_t>(named.size() - i);
    const auto answer = named[i]->link.try_take()->call(wire, 1, BootClock::now() + share,
                                                        /*reads_only=*/true);
    if (!answer) {
      failure = answer.error();
      continue;
    }
    const std::string where = named[i]->remote->address.display();
    const Reply& reply = answer->front();
    if (reply.is_error() && reply.text.find("cluster support disabled") != std::string::npos) {
      return Error(Errc::kInvalidArgument, where + " is no node of a cluster: use redis://");
    }
    if (reply.is_error()) return to_error(reply, where, /*reads_only=*/true);
    const auto view = parse_cluster_nodes(reply.text);
    if (!view) return view.error();
    for (const ClusterNode& node : *view) {
      if (!node.is_asked && !node.failed) node_at(node.at, *named[i]->remote);
    }
    turn_ = i;
    return {};
  }
  return *failure;
}

Result<std::vector<Reply>> NodeLinks::call(std::uint16_t slot, std::string_view wire,
                                           std::size_t replies, BootInstant by, bool reads_only) {
  int redirections = 0;
  for (std::size_t failures = 0;;) {
    Node& node = owner(slot);
    auto answer = node.link.try_take()->call(wire, replies, by, reads_only);
    if (!answer) {
      forget(slot);
      const bool again = answer.error().code() == Errc::kUnavailable &&
                         ++failures < nodes_.size() && BootClock::now() < by;
      if (!again) return answer;
      continue;  // Another node may know of a new owner.
    }
    const Reply& reply = answer->front();
    if (!reply.is_error() || !is_redirection(reply.error_word())) {
      owners_[slot] = &node;
      return answer;
    }
    const auto to = reply.text.starts_with("MOVED")
                        ? redirected_to(reply.text)
                        : Result<NodeAddress>(Error(Errc::kUnavailable, ""));
    if (to && ++redirections <= kMostRedirections) {
      owners_[slot] = &node_at(*to, *node.remote);
      continue;
    }
    if (redirections > kMostRedirections || BootClock::now() + 2 * kPause >= by) {
      return Error(Errc::kUnavailable, where_ + ": the slot of the record is moving (" +
                                           reply.text.substr(0, 80) + "): retry");
    }
    std::this_thread::sleep_for(kPause);
    if (reply.text.starts_with("CLUSTERDOWN")) forget(slot);
  }
}

void NodeLinks::close() {
  for (Node* node : nodes_) node->link.close();
}

NodeLinks::Node& NodeLinks::node_at(const NodeAddress& at, const Remote& told_by) {
  const bool by_name = !at.name.empty() && (remote_->address.tls || at.host.empty());
  const std::string& said = by_name ? at.name : at.host;
  const std::string& host = said.empty() ? told_by.address.host : said;
  std::unique_ptr<Node>& place = by_address_[port::Endpoint{host, at.port}.text()];
  if (place) return *place;
  auto remote = std::make_shared<Remote>(*remote_);
  remote->address.host = host;
  remote->address.port = at.port;
  remote->address.nodes.clear();
  remote->primary = std::make_shared<Resolver>(remote->address);
  place = std::make_unique<Node>(std::move(remote));
  nodes_.push_back(place.get());
  return *place;
}

NodeLinks::Node& NodeLinks::owner(std::uint16_t slot) {
  const auto known = owners_.find(slot);
  return known != owners_.end() ? *known->second : *nodes_[turn_ % nodes_.size()];
}

void NodeLinks::forget(std::uint16_t slot) {
  owners_.erase(slot);
  ++turn_;
}

}  // namespace holdfast::stores::redis
