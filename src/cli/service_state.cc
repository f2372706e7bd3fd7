#include "src/cli/service_state.h"

#include <algorithm>
#include <chrono>
#include <sstream>
#include <utility>

#include "src/cli/options/duration.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

// The leaders of all shards, as this server tells.
std::vector<std::string> leaders_of(const ServerStatus& server) {
  if (server.shards > 1 || server.leader.empty()) return shard_leaders(server);
  return {server.leader};
}

bool journal_answers(const ServerStatus& server) {
  return server.trouble.empty() && server.journal_answers;
}

// Why none of these servers serves this shard; empty: one does.
std::string why_vacant(const std::vector<ServerStatus>& servers, std::uint32_t shard) {
  std::string why;
  for (const ServerStatus& each : servers) {
    if (std::find(each.led.begin(), each.led.end(), shard) == each.led.end()) continue;
    if (serves(each)) return {};
    why = printable(each.address) + " leads, and its journal does not answer";
  }
  if (!why.empty()) return why;
  const bool answers = std::any_of(servers.begin(), servers.end(), journal_answers);
  // Others may still name a leader of before, which says itself that it leads no more.
  for (const ServerStatus& each : servers) {
    const auto leaders = leaders_of(each);
    const auto last = std::find_if(servers.begin(), servers.end(), [&](const ServerStatus& other) {
      return !other.trouble.empty() && shard < leaders.size() && other.address == leaders[shard];
    });
    if (last == servers.end()) continue;
    const std::string who = printable(last->address) + " was last seen leading, and ";
    if (last->refused) return who + "refuses the log-in";
    return who + "does not answer" +
           (answers ? ". If it has died, another server leads once its lease of leadership is over"
                    : ", nor does the journal");
  }
  return answers ? "no server leads yet" : "no server leads, and the journal does not answer";
}

// Whether these two cannot be servers of one journal. A server that stands by does not tell its
// journal, and each of several shards has its own. There only those are strangers that name no
// leader in common: while shards move, servers of one service tell different ones of some.
bool are_strangers(const ServerStatus& one, const ServerStatus& other) {
  if (!one.trouble.empty() || !other.trouble.empty()) return false;
  if (one.shards != other.shards) return true;
  if (std::none_of(one.led.begin(), one.led.end(), [&](std::uint32_t shard) {
        return std::find(other.led.begin(), other.led.end(), shard) != other.led.end();
      })) {
    return false;
  }
  if (one.shards == 1) return one.journal_id != other.journal_id;
  const auto its = shard_leaders(one);
  const auto others = shard_leaders(other);
  for (std::size_t shard = 0; shard < std::min(its.size(), others.size()); ++shard) {
    if (!its[shard].empty() && its[shard] == others[shard]) return false;
  }
  return true;
}

}  // namespace

const char* silence_word(bool refused) { return refused ? "refuses the log-in" : "no answer"; }

std::string ranges(const std::vector<std::uint32_t>& numbers) {
  std::string text;
  for (std::size_t first = 0; first < numbers.size();) {
    std::size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(numbers[first]);
    if (last > first) text += "-" + std::to_string(numbers[last]);
    first = last + 1;
  }
  return text;
}

std::string shards_text(const std::vector<std::uint32_t>& shards) {
  if (shards.empty()) return {};
  return (shards.size() == 1 ? "shard " : "shards ") + ranges(shards);
}

std::vector<std::string> shard_leaders(const ServerStatus& server) {
  std::vector<std::string> leaders;
  if (server.shards == 1 || server.leader.empty()) return leaders;
  std::istringstream list(server.leader);
  for (std::string each; std::getline(list, each, ',');) leaders.push_back(each);
  leaders.resize(server.shards);
  return leaders;
}

bool has_several_shards(const std::vector<ServerStatus>& servers) {
  return std::any_of(servers.begin(), servers.end(),
                     [](const ServerStatus& each) { return each.shards > 1; });
}

bool serves(const ServerStatus& server) { return server.leads && server.journal_answers; }

bool grants_nothing(const ServerStatus& server) {
  return server.leading > 0 && (server.full || server.quiet.count() > 0);
}

std::string journal_note(const ServerStatus& server) {
  const std::string who = printable(server.address) + ": ";
  const std::string journal =
      "journal" + (server.place.empty() ? "" : " " + printable(server.place));
  if (server.full) {
    return who + "its " + journal +
           " cannot be written, so no lock is granted, and renewals go on: make room on its disk, "
           "or in its etcd\n";
  }
  if (server.quiet.count() > 0) {
    const std::string shards = shards_text(server.quiet_shards);
    return who + (shards.empty() ? "its " : shards + " of its ") + journal +
           " is a restored copy, so no lock " + (shards.empty() ? "" : "of it ") +
           "is granted for " + format_duration(server.quiet) +
           " more. If all clients were stopped, start it with --clients-stopped\n";
  }
  if (!server.nearly_full) return {};
  return who + "the disk, or etcd's quota, of its " + journal + " is " +
         std::to_string(server.disk_percent) +
         " % full. When it is full, no lock is granted: make room\n";
}

Vacant vacant_shards(const std::vector<ServerStatus>& servers) {
  std::uint32_t count = 0;
  for (const ServerStatus& each : servers) {
    if (each.trouble.empty()) count = std::max(count, each.shards);
  }
  Vacant vacant;
  for (std::uint32_t shard = 0; shard < count; ++shard) {
    if (std::string why = why_vacant(servers, shard); !why.empty()) vacant[shard] = std::move(why);
  }
  return vacant;
}

std::string sentences(const Vacant& vacant, const std::vector<ServerStatus>& servers) {
  std::map<std::string, std::vector<std::uint32_t>> by_reason;
  for (const auto& [shard, why] : vacant) by_reason[why].push_back(shard);
  const bool alone = !has_several_shards(servers);
  std::string text;
  for (const auto& [why, shards] : by_reason) {
    text += alone ? "no lock is served"
                  : shards_text(shards) + (shards.size() == 1 ? " is" : " are") + " not served";
    text += ": " + why + "\n";
  }
  return text;
}

std::string strangers(const std::vector<ServerStatus>& servers) {
  for (const ServerStatus& one : servers) {
    for (const ServerStatus& other : servers) {
      if (!are_strangers(one, other)) continue;
      return printable(one.address) + " and " + printable(other.address) +
             " are of different lock services, and do not exclude each other's clients: name the "
             "servers of one\n";
    }
  }
  return {};
}

}  // namespace holdfast::cli
