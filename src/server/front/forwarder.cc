#include "src/server/front/forwarder.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/server/front/commands.h"
#include "src/server/front/leader_link.h"
#include "src/server/front/reply_writer.h"

namespace holdfast::server {
namespace {

using base::BootClock;

// Each server counts the channels that were joined there: the client is told of all, as they were
// when it asked.
std::function<void(Connection&, std::string_view)> tell_subscription(const Connection& client,
                                                                     Connection::Turn turn,
                                                                     const std::string& kind,
                                                                     const std::string& channel) {
  const auto count = static_cast<std::int64_t>(client.subscriptions());
  return [turn, kind, channel, count](Connection& asker, std::string_view) {
    std::string bytes;
    append_push(bytes, asker.protocol, 3);
    append_text(bytes, kind);
    append_text(bytes, channel);
    append_integer(bytes, count);
    asker.finish(turn, std::move(bytes));
  };
}

}  // namespace

Forwarder::Forwarder(asio::io_context& io, std::shared_ptr<ReadySet> ready, std::string& scratch,
                     std::chrono::milliseconds patience)
    : io_(io), ready_(std::move(ready)), scratch_(scratch), patience_(patience), alarms_(io) {}

void Forwarder::use(port::ServerTlsPtr tls, Gate* gate) {
  tls_ = std::move(tls);
  gate_ = gate;
}

// One for each client and leader: so answers and messages need no marks, a client that stops
// reading holds up nobody else, and the leader has the client's user on it.
LeaderLinkPtr Forwarder::link(Connection& connection, const std::string& leader) {
  LeaderLinkPtr& known = connection.links[leader];
  if (known != nullptr) return known;
  LeaderLinkPtr made = known = std::make_shared<LeaderLink>(
      LinkTools{{io_, ready_, tls_, gate_}, alarms_, scratch_, patience_},
      connection.shared_from_this(), leader);
  made->open();
  return made;
}

void Forwarder::forward(Connection& connection, const std::string& leader, const Words& words,
                        std::chrono::milliseconds lease) {
  const auto by = BootClock::now() + std::min(lease, patience_);
  const Connection::Turn turn = connection.begin(by);
  link(connection, leader)
      ->send(request_bytes(words), by, [turn](Connection& client, std::string_view reply) {
        client.finish(turn, std::string(reply));
      });
}

// Redisson's waiters listen where the lock's leader is, because that one tells of its end.
bool Forwarder::run_channels(Connection& connection, const Words& words,
                             const std::function<std::string(const std::string&)>& leader_of,
                             const std::function<void(const Words&)>& here) {
  const std::string name = command_word(words.front());
  const bool joins = name == "SUBSCRIBE";
  if (!joins && name != "UNSUBSCRIBE") return false;
  std::vector<std::string> channels(words.begin() + 1, words.end());
  if (channels.empty() && !joins) {
    channels.assign(connection.channels.begin(), connection.channels.end());
    for (const auto& [channel, link] : connection.distant_channels) channels.push_back(channel);
  }
  const auto is_distant = [&](const std::string& channel) {
    return joins ? !leader_of(channel).empty() : connection.distant_channels.contains(channel);
  };
  if (std::none_of(channels.begin(), channels.end(), is_distant)) return false;
  for (const std::string& each : channels) {
    if (connection.closed()) return true;
    if (!is_distant(each)) {
      here({words.front(), each});
    } else if (joins) {
      subscribe(connection, leader_of(each), each);
    } else {
      unsubscribe(connection, each);
    }
  }
  return true;
}

// A channel counts as joined from the request that joins it to the one that leaves it, as at the
// leader.
void Forwarder::subscribe(Connection& connection, const std::string& leader,
                          const std::string& channel) {
  const Connection::Turn turn = connection.begin();
  const LeaderLinkPtr there = link(connection, leader);
  connection.distant_channels.insert_or_assign(channel, there);
  there->send(request_bytes({"SUBSCRIBE", channel}), BootClock::now() + patience_,
              [turn, channel, tell = tell_subscription(connection, turn, "subscribe", channel)](
                  Connection& client, std::string_view reply) {
                if (!reply.starts_with('-')) return tell(client, reply);
                client.distant_channels.erase(channel);
                client.finish(turn, std::string(reply));
              });
}

void Forwarder::unsubscribe(Connection& connection, const std::string& channel) {
  const auto joined = connection.distant_channels.extract(channel);
  if (joined.empty()) return;
  const Connection::Turn turn = connection.begin();
  joined.mapped()->send(request_bytes({"UNSUBSCRIBE", channel}), BootClock::now() + patience_,
                        tell_subscription(connection, turn, "unsubscribe", channel));
}

void Forwarder::leave(Connection& connection) {
  connection.distant_channels.clear();
  const auto links = std::exchange(connection.links, {});
  for (const auto& [leader, link] : links) link->close();
}

}  // namespace holdfast::server
