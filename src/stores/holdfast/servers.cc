#include "src/stores/holdfast/servers.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "holdfast/detail/number.h"
#include "src/base/local_mutex.h"
#include "src/base/thread.h"
#include "src/port/service/journal.h"
#include "src/stores/holdfast/url.h"
#include "src/stores/redis/protocol/reply.h"
#include "src/stores/redis/protocol/script_call.h"
#include "src/stores/redis/transport/direct_link.h"
#include "src/stores/redis/transport/remote.h"

namespace holdfast::stores::holdfast {
namespace {

using WireWords = std::vector<std::string_view>;

// One connection to one server, whether it leads or stands by.
class OneServer {
 public:
  // Errors: of the TLS files.
  static Result<OneServer> make(const redis::RedisAddress& service, const port::Endpoint& server) {
    redis::RedisAddress address = service;
    address.host = server.host;
    address.port = server.port;
    address.nodes = {server};
    auto remote = redis::Remote::make(std::move(address));
    if (!remote) return remote.error();
    return OneServer(*std::move(remote));
  }

  Result<redis::Reply> ask(const WireWords& words) {
    return ask(words, base::BootClock::now() + timeout_);
  }
  Result<redis::Reply> ask(const WireWords& words, base::BootInstant deadline) {
    std::string wire;
    redis::append_command(wire, words);
    const auto replies = link_->try_take()->call(wire, 1, deadline, /*reads_only=*/true);
    if (!replies) return replies.error();
    return replies->front();
  }
  // Ends the question under way. From any thread.
  void give_up() noexcept { link_->give_up(); }

 private:
  explicit OneServer(redis::RemotePtr remote)
      : timeout_(remote->address.connect_timeout),
        link_(std::make_unique<redis::DirectLink>(std::move(remote))) {}

  std::chrono::milliseconds timeout_;
  std::unique_ptr<redis::DirectLink> link_;
};

Result<redis::Reply> ask(const redis::RedisAddress& service, const port::Endpoint& server,
                         const WireWords& words) {
  auto one = OneServer::make(service, server);
  if (!one) return one.error();
  return one->ask(words);
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

// Words with commas between them; nothing stays empty words.
std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> words;
  for (std::size_t from = 0; !list.empty() && from <= list.size();) {
    const std::size_t comma = std::min(list.find(',', from), list.size());
    words.push_back(list.substr(from, comma - from));
    from = comma + 1;
  }
  return words;
}

ServerStatus status_of(const Result<redis::Reply>& reply, const port::Endpoint& server) {
  ServerStatus status;
  status.address = server.text();
  if (!reply) {
    status.trouble = reply.error().message();
    status.refused = reply.error().code() == Errc::kPermissionDenied;
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
  status.place = field(info, "journal_place");
  status.term = field(info, "term");
  status.pid = number(info, "process_id");
  status.uptime = std::chrono::seconds(number(info, "uptime_in_seconds"));
  status.connections = number(info, "connected_clients");
  status.holders = number(info, "holders");
  status.waiters = number(info, "waiters");
  status.full = field(info, "journal_full") == "1";
  status.journal_answers = field(info, "journal_answers") != "0";
  status.quiet = std::chrono::seconds(number(info, "quiet_seconds"));
  const port::DiskSpace disk{.free = number(info, "disk_free_bytes"),
                             .size = number(info, "disk_size_bytes")};
  status.disk_percent = disk.percent();
  status.nearly_full = status.disk_percent >= port::DiskSpace::kNearlyFull;
  status.shards = std::max<std::uint32_t>(static_cast<std::uint32_t>(number(info, "shards")), 1);
  if (status.shards > 1) status.leader = field(info, "shard_leaders");
  const auto read_shards = [&](const char* name, std::vector<std::uint32_t>& into) {
    for (const std::string& each : split(field(info, name))) {
      const auto shard = ::holdfast::detail::parse_number<std::uint32_t>(each);
      if (shard && *shard < status.shards) into.push_back(*shard);
    }
  };
  read_shards("shards_led", status.led);
  read_shards("quiet_shards", status.quiet_shards);
  // A server of before does not say.
  if (status.led.empty() && status.shards == 1 && status.leads) status.led.push_back(0);
  status.leading = static_cast<std::uint32_t>(status.led.size());
  return status;
}

ServerStatus status_of_server(const redis::RedisAddress& address, const port::Endpoint& server) {
  return status_of(ask(address, server, {"INFO"}), server);
}

// Asks each of these servers at the same time, on a thread of its own, so one that hangs costs the
// others no time. Its end ends the questions that are under way.
class AllServers {
 public:
  AllServers(const redis::RedisAddress& service, std::vector<port::Endpoint> servers,
             base::BootInstant by)
      : servers_(std::move(servers)), told_(servers_.size()) {
    const base::LocalLock lock(mutex_);
    for (std::size_t at = 0; at < servers_.size(); ++at) {
      auto link = OneServer::make(service, servers_[at]);
      if (!link) {
        told_[at] = status_of(link.error(), servers_[at]);
        continue;
      }
      links_.push_back(std::make_unique<OneServer>(*std::move(link)));
      ++asking_;
      threads_.push_back(
          base::start_thread("holdfast-ask", [this, one = links_.back().get(), at, by] {
            tell(at, status_of(one->ask({"INFO"}, by), servers_[at]));
          }));
    }
  }
  // A question that is given up just before it is sent does not notice, so this tries again.
  ~AllServers() {
    mutex_.lock();
    while (asking_ > 0) {
      for (const auto& each : links_) each->give_up();
      changed_.wait_for(mutex_, std::chrono::milliseconds(10));
    }
    mutex_.unlock();
    for (std::thread& each : threads_) each.join();
  }
  AllServers(const AllServers&) = delete;
  AllServers& operator=(const AllServers&) = delete;

  // Waits for each, and gives what they have told, in their order.
  std::vector<ServerStatus> all() {
    const base::LocalLock lock(mutex_);
    while (asking_ > 0) changed_.wait(mutex_);
    return told_;
  }
  // The first that tells of several shards. nullopt: none of them does.
  std::optional<ServiceShards> first_with_shards() {
    const base::LocalLock lock(mutex_);
    while (!first_ && asking_ > 0) changed_.wait(mutex_);
    if (!first_) return std::nullopt;
    const ServerStatus& status = told_[*first_];
    ServiceShards shards{status.shards, servers_[*first_], split(status.leader)};
    shards.leaders.resize(status.shards);
    return shards;
  }

 private:
  void tell(std::size_t at, ServerStatus status) {
    const base::LocalLock lock(mutex_);
    --asking_;
    told_[at] = std::move(status);
    if (!first_ && told_[at].trouble.empty() && told_[at].shards > 1) first_ = at;
    changed_.notify_all();
  }

  const std::vector<port::Endpoint> servers_;
  base::LocalMutex mutex_;
  base::LocalCondition changed_;
  std::vector<ServerStatus> told_ HOLDFAST_GUARDED_BY(mutex_);
  std::size_t asking_ HOLDFAST_GUARDED_BY(mutex_) = 0;
  std::optional<std::size_t> first_ HOLDFAST_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<OneServer>> links_;
  std::vector<std::thread> threads_;
};

std::vector<ServerStatus> ask_each(const redis::RedisAddress& service,
                                   std::vector<port::Endpoint> servers) {
  const auto by = base::BootClock::now() + service.connect_timeout;
  return AllServers(service, std::move(servers), by).all();
}

Result<port::Endpoint> endpoint_of(const redis::RedisAddress& address, const std::string& server) {
  return port::parse_endpoint(server, {address.nodes.front().host, kPort}, "holdfast");
}

// The servers that are said to lead a shard which none of these leads, and which are none of these.
std::vector<port::Endpoint> other_leaders(const redis::RedisAddress& address,
                                          const std::vector<ServerStatus>& asked) {
  std::set<std::uint32_t> led;
  std::set<std::string> known;
  for (const ServerStatus& each : asked) {
    led.insert(each.led.begin(), each.led.end());
    known.insert(each.address);
  }
  std::vector<port::Endpoint> others;
  for (const ServerStatus& each : asked) {
    const auto leaders = split(each.leader);
    for (std::uint32_t shard = 0; shard < leaders.size(); ++shard) {
      if (led.contains(shard) || leaders[shard].empty()) continue;
      if (!known.insert(leaders[shard]).second) continue;
      if (auto server = endpoint_of(address, leaders[shard])) others.push_back(*std::move(server));
    }
  }
  return others;
}

// A call of operators, which a server of before does not know.
Result<redis::Reply> checked_call(Result<redis::Reply> reply, const std::string& where) {
  const bool old = reply && reply->is_error() &&
                   (reply->text.starts_with("STANDBY ") ||
                    reply->text.find("there is no such call") != std::string::npos);
  if (old) {
    return Error(Errc::kUnsupported, where + ": this server is of an older version: update it");
  }
  return redis::checked(std::move(reply), where, /*reads_only=*/true);
}

ServerMember member_of(const redis::Reply& fields) {
  ServerMember member;
  for (std::size_t at = 0; at + 1 < fields.items.size(); at += 2) {
    const std::string& name = fields.items[at].text;
    const std::string& value = fields.items[at + 1].text;
    if (name == "address") member.address = value;
    if (name == "version") member.version = value;
    if (name == "http") member.http = value;
    if (name == "leads") member.leads = value == "1";
    if (name == "shards") {
      member.shards = ::holdfast::detail::parse_number<std::uint32_t>(value).value_or(0);
    }
    const auto ms = ::holdfast::detail::parse_number<std::int64_t>(value);
    if (name == "since" && ms) {
      member.since = std::chrono::system_clock::time_point(std::chrono::milliseconds(*ms));
    }
  }
  return member;
}

// The list alone does not know that a server has just died.
void note_troubles(const redis::RedisAddress& address, std::vector<ServerMember>& members) {
  std::vector<port::Endpoint> places;
  std::vector<ServerMember*> placed;
  for (ServerMember& each : members) {
    auto place = endpoint_of(address, each.address);
    if (!place) {
      each.trouble = place.error().message();
      continue;
    }
    places.push_back(*std::move(place));
    placed.push_back(&each);
  }
  const auto answers = ask_each(address, places);
  for (std::size_t at = 0; at < placed.size(); ++at) {
    placed[at]->trouble = answers[at].trouble;
    placed[at]->refused = answers[at].refused;
  }
}

Result<port::Endpoint> which_server(const redis::RedisAddress& address, const std::string& name) {
  if (!name.empty()) return endpoint_of(address, name);
  if (address.nodes.size() == 1) return address.nodes.front();
  return Error(Errc::kInvalidArgument, address.display() +
                                           ": the URL names several servers: say which one with "
                                           "--address, for example " +
                                           address.nodes.front().text());
}

// The process that was asked, and not one that was started at its place.
bool is_same(const ServerStatus& now, const ServerStatus& before) {
  return now.trouble.empty() && now.pid == before.pid && now.uptime >= before.uptime;
}

// A server that stops reads no more requests, and closes its connections when the last commit is
// answered. So a question that stays without an answer ends with the server.
Result<void> await_end(const redis::RedisAddress& address, const port::Endpoint& server,
                       OneServer& link, const ServerStatus& before,
                       std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kBetweenLooks{50};
  const auto until = base::BootClock::now() + patience;
  const char* waits = "the program that runs it, which goes on as before";
  while (base::BootClock::now() < until) {
    const ServerStatus now = status_of(link.ask({"INFO"}, until), server);
    // Another process answers at its place, so it has ended.
    if (now.trouble.empty() && !is_same(now, before)) return {};
    if (now.trouble.empty()) {
      std::this_thread::sleep_for(kBetweenLooks);
    } else if (base::BootClock::now() >= until) {
      waits = "its journal to take what is under way, or stands still; its stderr says more";
    } else if (!is_same(status_of_server(address, server), before)) {
      return {};
    }
  }
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(patience);
  return Error(Errc::kTimedOut, server.text() + " was asked to stop, and is still there after " +
                                    std::to_string(whole.count()) + " s: it waits for " + waits);
}

}  // namespace

Result<std::vector<ServerStatus>> ask_servers(const redis::RedisAddress& address) {
  std::vector<ServerStatus> all = ask_each(address, address.nodes);
  for (ServerStatus& each : ask_each(address, other_leaders(address, all))) {
    const bool is_leader = !each.trouble.empty() || each.leading > 0;
    if (is_leader) all.push_back(std::move(each));
  }
  return all;
}

Result<ServiceShards> ask_for_shards(const redis::RedisAddress& address, base::BootInstant by) {
  AllServers servers(address, address.nodes, by);
  if (const auto shards = servers.first_with_shards()) return *shards;
  for (const ServerStatus& each : servers.all()) {
    if (each.trouble.empty()) {
      return Error(Errc::kUnsupported, address.display() + ": has one shard");
    }
  }
  return Error(Errc::kUnavailable, address.display() + ": no server answers");
}

Result<std::string> ask_to_step_down(const redis::RedisAddress& address,
                                     const std::string& server) {
  std::vector<port::Endpoint> candidates = address.nodes;
  if (!server.empty()) {
    const auto named = endpoint_of(address, server);
    if (!named) return named.error();
    candidates = {*named};
  }
  std::optional<Error> silent;
  for (const port::Endpoint& each : candidates) {
    const auto told = ask(address, each, {"INFO"});
    if (!told) silent = told.error();
    // A log-in that one server refuses does not fit the others, either.
    if (!told && told.error().code() == Errc::kPermissionDenied) return told.error();
    const ServerStatus status = status_of(told, each);
    if (status.trouble.empty() && status.shards > 1) {
      if (const auto one = which_server(address, server); !one) return one.error();
    } else if (!status.leads) {
      continue;
    }
    const std::string where = address.display() + " (" + each.text() + ")";
    const auto reply = ask(address, each, {"HF1", "step_down", "0"});
    if (!reply) return reply.error();
    const auto checked = redis::checked(*reply, where, /*reads_only=*/true);
    if (!checked) return checked.error();
    return each.text();
  }
  if (silent && candidates.size() == 1) return *silent;
  return Error(Errc::kUnavailable, address.display() +
                                       ": no server that was named leads: see "
                                       "'holdfast server status'");
}

Result<std::vector<ServerMember>> ask_for_members(const redis::RedisAddress& address) {
  Error last(Errc::kUnavailable, address.display() + ": no server answers");
  for (const port::Endpoint& each : address.nodes) {
    const std::string where = address.display() + " (" + each.text() + ")";
    const auto reply = checked_call(ask(address, each, {"HF1", "members", "0"}), where);
    if (!reply) {
      last = reply.error();
      if (last.code() != Errc::kUnavailable) return last;  // Another one would say the same.
      continue;
    }
    std::vector<ServerMember> members;
    for (const redis::Reply& item : reply->items) members.push_back(member_of(item));
    note_troubles(address, members);
    return members;
  }
  return last;
}

Result<std::string> drain_one(const redis::RedisAddress& address, const std::string& server,
                              std::chrono::milliseconds patience) {
  const auto which = which_server(address, server);
  if (!which) return which.error();
  auto link = OneServer::make(address, *which);
  if (!link) return link.error();
  const std::string where = address.display() + " (" + which->text() + ")";
  const auto told = link->ask({"INFO"});
  if (!told) return told.error();
  const ServerStatus before = status_of(told, *which);
  if (!before.trouble.empty()) return Error(Errc::kUnsupported, where + ": " + before.trouble);
  const auto asked = checked_call(link->ask({"HF1", "drain", "0"}), where);
  if (!asked) return asked.error();
  if (const auto ended = await_end(address, *which, *link, before, patience); !ended) {
    return ended.error();
  }
  return which->text();
}

}  // namespace holdfast::stores::holdfast
