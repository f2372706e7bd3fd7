#include "src/stores/holdfast/servers.h"

#include <string_view>
#include <utility>

#include "holdfast/detail/number.h"
#include "src/stores/redis/protocol/reply.h"
#include "src/stores/redis/protocol/script_call.h"
#include "src/stores/redis/transport/direct_link.h"
#include "src/stores/redis/transport/remote.h"

namespace holdfast::stores::holdfast {
namespace {

// One connection to one server, whether it leads or stands by.
Result<redis::Reply> ask(const redis::RedisAddress& service, const port::Endpoint& server,
                         const std::vector<std::string_view>& words) {
  redis::RedisAddress address = service;
  address.host = server.host;
  address.port = server.port;
  address.nodes = {server};
  auto remote = redis::Remote::make(std::move(address));
  if (!remote) return remote.error();
  redis::DirectLink link(*remote);
  std::string wire;
  redis::append_command(wire, words);
  auto turn = link.try_take();
  const auto replies = turn->call(wire, 1, base::BootClock::now() + service.connect_timeout,
                                  /*reads_only=*/true);
  if (!replies) return replies.error();
  return replies->front();
}

// The value behind "\r\n<name>:" in an answer to INFO.
std::string field(const std::string& info, const std::string& name) {
  const std::string head = "\n" + name + ":";
  const std::size_t at = info.find(head);
  if (at == info.npos) return {};
  const std::size_t begin = at + head.size();
  return info.substr(begin, info.find('\r', begin) - begin);
}

std::uint64_t number(const std::string& info, const std::string& name) {
  return ::holdfast::detail::parse_number<std::uint64_t>(field(info, name)).value_or(0);
}

ServerStatus status_of_server(const redis::RedisAddress& address, const port::Endpoint& server) {
  ServerStatus status;
  status.address = server.text();
  const auto reply = ask(address, server, {"INFO"});
  if (!reply) {
    status.trouble = reply.error().message();
    return status;
  }
  const std::string& info = reply->text;
  if (reply->is_error() || field(info, "server") != "holdfast") {
    status.trouble = reply->is_error() ? info : "it is not Holdfast's lock service";
    return status;
  }
  status.leads = field(info, "leads") == "1";
  status.leader = field(info, "leader");
  status.version = field(info, "holdfast_version");
  status.journal_id = field(info, "journal_id");
  status.term = field(info, "term");
  status.pid = number(info, "process_id");
  status.uptime = std::chrono::seconds(number(info, "uptime_in_seconds"));
  status.connections = number(info, "connected_clients");
  status.holders = number(info, "holders");
  status.waiters = number(info, "waiters");
  status.full = field(info, "journal_full") == "1";
  return status;
}

}  // namespace

Result<std::vector<ServerStatus>> ask_servers(const redis::RedisAddress& address) {
  std::vector<ServerStatus> all;
  for (const port::Endpoint& each : address.nodes) all.push_back(status_of_server(address, each));
  return all;
}

Result<std::string> ask_to_step_down(const redis::RedisAddress& address) {
  for (const port::Endpoint& each : address.nodes) {
    if (!status_of_server(address, each).leads) continue;
    const std::string where = address.display() + " (" + each.text() + ")";
    const auto reply = ask(address, each, {"HF1", "step_down", "0"});
    if (!reply) return reply.error();
    const auto checked = redis::checked(*reply, where, /*reads_only=*/true);
    if (!checked) return checked.error();
    return each.text();
  }
  return Error(Errc::kUnavailable, address.display() +
                                       ": no server that was named leads: see "
                                       "'holdfast server status'");
}

}  // namespace holdfast::stores::holdfast
