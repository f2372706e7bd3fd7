#include "src/stores/redis/blocking_link.h"

#include <array>
#include <string_view>
#include <utility>

#include "src/stores/redis/doctor/facts.h"

namespace holdfast::stores::redis {
namespace {

using base::BootInstant;

std::string losses(const Facts& facts) {
  std::string all = "Redis answers before a replica has a change, so a fail-over may forget it";
  const std::string_view file = fact(facts, "aof_enabled");
  const std::string_view sync = fact(facts, "config appendfsync");
  if (file == "0") {
    all += "; appendonly is off, so a crash forgets changes";
  } else if (file.empty() || sync.empty()) {
    all += "; this user may not ask INFO and CONFIG GET, so what a crash forgets is not known";
  } else if (sync != "always") {
    all += "; appendfsync is " + std::string(sync) + ", so a crash forgets the newest changes";
  }
  const std::string_view evicts = fact(facts, "maxmemory_policy");
  if (evicts.starts_with("allkeys")) {
    all += "; maxmemory-policy is " + std::string(evicts) + ", which may evict records";
  }
  return all;
}

}  // namespace

BlockingLink::BlockingLink(Opening opening)
    : remote_(std::move(opening.remote)),
      sentinels_(std::move(opening.sentinels)),
      where_(remote_->address.display()),
      link_(remote_) {
  if (!remote_->address.nodes.empty()) nodes_.emplace(remote_);
}

BlockingLink::~BlockingLink() {
  if (nodes_) nodes_->close();
  link_.close();
  if (sentinels_) sentinels_->close();
}

Result<void> BlockingLink::open(BootInstant by) {
  std::string wire;
  append_command(wire, std::array<std::string_view, 1>{"INFO"});
  append_command(wire, std::array<std::string_view, 3>{"CONFIG", "GET", "appendfsync"});
  if (nodes_) {
    if (auto opened = nodes_->open(by); !opened) return opened;
  }
  const auto replies = call(wire, 2, by, /*reads_only=*/true, 0);
  if (!replies) return replies.error();
  Facts facts;
  for (const Reply& reply : *replies) {
    if (reply.is_error()) continue;
    reply.kind == Reply::Kind::kArray ? read_config(reply, facts) : read_info(reply.text, facts);
  }
  forgets_ = where_ + ": " + losses(facts);
  return {};
}

Result<std::vector<Reply>> BlockingLink::call(std::string_view wire, std::size_t replies,
                                              BootInstant by, bool reads_only, std::uint16_t slot) {
  if (nodes_) return nodes_->call(slot, wire, replies, by, reads_only);
  return link_.try_take()->call(wire, replies, by, reads_only);
}

Result<Reply> BlockingLink::ask(const std::string& wire, BootInstant by, bool reads_only,
                                std::uint16_t slot) {
  auto replies = call(wire, 1, by, reads_only, slot);
  if (!replies) return replies.error();
  return std::move(replies->front());
}

Result<BlockingLink::Changed> BlockingLink::change(std::string wire, BootInstant by,
                                                   std::uint16_t slot) {
  const std::uint32_t wanted = remote_->address.replicas;
  if (wanted == 0) {
    auto reply = ask(wire, by, /*reads_only=*/false, slot);
    if (!reply) return reply.error();
    return Changed{*std::move(reply)};
  }
  const std::string count = std::to_string(wanted);
  const std::string limit = std::to_string(remote_->address.replicas_timeout.count());
  append_command(wire, std::array<std::string_view, 3>{"WAIT", count, limit});
  auto replies = call(wire, 2, by, /*reads_only=*/false, slot);
  if (!replies) return replies.error();
  const bool confirmed = replies->back().integer >= std::int64_t{wanted};
  return Changed{std::move(replies->front()), confirmed};
}

std::string BlockingLink::unconfirmed() const {
  return "the change was made, but fewer than " + std::to_string(remote_->address.replicas) +
         " replicas have confirmed it";
}

}  // namespace holdfast::stores::redis
