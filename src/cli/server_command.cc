// `server`: a lock service's journal in the hands of an operator.

#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "holdfast/server_tools.h"
#include "holdfast/stores.h"
#include "src/cli/commands.h"
#include "src/cli/exit_codes.h"
#include "src/cli/options/duration.h"
#include "src/cli/options/settings.h"
#include "src/cli/service_state.h"
#include "src/cli/text/json.h"
#include "src/cli/text/output.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

Result<JournalReport> perform(const ServerToolOptions& options) {
  if (options.verb == "backup") return back_up_journal(options.from, options.to);
  if (options.verb == "restore") return restore_journal(options.from, options.to);
  return verify_journal(options.from);
}

std::string sentence(const ServerToolOptions& options, const JournalReport& report) {
  std::string text = options.verb == "verify"   ? "whole: " + printable(options.from)
                     : options.verb == "backup" ? "backed up to " + printable(options.to)
                                                : "restored to " + printable(options.to);
  text += "\n  journal " + report.id +
          (report.shards == 1 ? ", term " + printable(report.term) + ", batch "
                              : ", " + std::to_string(report.shards) + " shards, batches: ") +
          std::to_string(report.batches) + "\n  locks: " + std::to_string(report.locks) +
          ", holders: " + std::to_string(report.holders) +
          ", waiters: " + std::to_string(report.waiters) + "\n";
  if (options.verb == "restore") {
    text +=
        "  a server on it grants nothing for 24 h. When all clients are stopped, start it with "
        "--clients-stopped\n";
  }
  return text;
}

// The first line of stdin. On a terminal it is asked for, and not shown.
Result<std::string> read_password() {
  const bool asks = ::isatty(STDIN_FILENO) == 1;
  termios before{};
  if (asks && ::tcgetattr(STDIN_FILENO, &before) == 0) {
    termios silent = before;
    silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
    std::cerr << "password: " << std::flush;
  }
  std::string line;
  const bool read = static_cast<bool>(std::getline(std::cin, line));
  if (asks) {
    ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    std::cerr << '\n';
  }
  if (!read) return Error(Errc::kInvalidArgument, "no password came on stdin");
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

std::string restored_note(const ServerStatus& server) {
  const std::string shards = shards_text(server.quiet_shards);
  return (shards.empty() ? "" : ", " + shards) + ", restored: grants nothing";
}

std::string role_of(const ServerStatus& server) {
  if (!server.trouble.empty()) return silence_word(server.refused);
  const std::string trouble = !server.journal_answers    ? ", journal does not answer"
                              : server.full              ? ", journal full"
                              : server.quiet.count() > 0 ? restored_note(server)
                                                         : "";
  if (server.shards > 1) {
    return "leads " + std::to_string(server.leading) + " of " + std::to_string(server.shards) +
           trouble;
  }
  if (server.leads) return "leads" + trouble;
  const std::string whom = server.leader.empty() ? "" : " for " + printable(server.leader);
  return "stands by" + whom + (server.journal_answers ? "" : trouble);
}

Json to_json(const ServerStatus& server) {
  if (!server.trouble.empty()) {
    return {{"address", server.address}, {"trouble", server.trouble}, {"refused", server.refused}};
  }
  return {{"address", server.address},
          {"leads", server.leads},
          {"leader", server.shards > 1 ? "" : server.leader},
          {"version", server.version},
          {"journal_id", server.journal_id},
          {"journal_place", server.place},
          {"term", server.term},
          {"pid", server.pid},
          {"uptime_s", server.uptime.count()},
          {"connections", server.connections},
          {"holders", server.holders},
          {"waiters", server.waiters},
          {"journal_answers", server.journal_answers},
          {"full", server.full},
          {"disk_percent", server.disk_percent},
          {"quiet_s", server.quiet.count()},
          {"quiet_shards", server.quiet_shards},
          {"shards", server.shards},
          {"leading", server.leading},
          {"shard_leaders", shard_leaders(server)}};
}

// 0: each shard is led by one that grants locks. 1: otherwise.
int show_status(const ServerToolOptions& options, const std::vector<ServerStatus>& servers) {
  Table table({"SERVER", "ROLE", "TERM", "UP", "CONNECTIONS", "HOLDERS", "WAITERS"});
  Json json = {{"servers", Json::array()}};
  std::string notes;
  for (const ServerStatus& each : servers) {
    json["servers"].push_back(to_json(each));
    notes += journal_note(each);
    if (!each.trouble.empty()) {
      table.add({printable(each.address), role_of(each), "-", "-", "-", "-", "-"});
      notes += printable(each.trouble) + "\n";
      continue;
    }
    table.add({printable(each.address), role_of(each),
               each.term.empty() ? "-" : printable(each.term), format_duration(each.uptime),
               std::to_string(each.connections), std::to_string(each.holders),
               std::to_string(each.waiters)});
  }
  json["vacant_shards"] = Json::array();
  const auto vacant = vacant_shards(servers);
  for (const auto& [shard, why] : vacant) json["vacant_shards"].push_back(shard);
  notes += sentences(vacant, servers);
  const std::string mixed = strangers(servers);
  notes += mixed;
  json["one_service"] = mixed.empty();
  const bool served = mixed.empty() && vacant.empty() &&
                      std::any_of(servers.begin(), servers.end(), serves) &&
                      std::none_of(servers.begin(), servers.end(), grants_nothing);
  const int told =
      answer(options.common, json, table.to_string(colour_wanted(), terminal_width()) + notes);
  return told == 0 && !served ? kExitUnhealthy : told;
}

const ServerStatus* leader_of(const std::vector<ServerStatus>& servers) {
  const auto leads = std::find_if(servers.begin(), servers.end(),
                                  [](const ServerStatus& each) { return each.leads; });
  return leads == servers.end() ? nullptr : &*leads;
}

int tell_step_down(const ServerToolOptions& options, const std::string& before,
                   const std::string& leader) {
  return answer(options.common, {{"stepped_down", before}, {"leader", leader}},
                printable(before) + " has stepped down, and " + printable(leader) + " leads\n");
}

// Which server leads in the place of `before`, which stands by; empty: that is not known yet.
std::string successor_of(const std::string& url, const ServerStatus& before) {
  if (!before.leader.empty() && before.leader != before.address) return before.leader;
  const auto members = service_members(url);
  if (!members) return {};  // Perhaps it may not ask for them.
  for (const ServerMember& each : *members) {
    if (each.leads && each.trouble.empty() && each.address != before.address) return each.address;
  }
  return {};
}

using HandOverClock = std::chrono::steady_clock;
using Look = std::function<std::optional<int>(const std::vector<ServerStatus>&)>;

// The URL with the other members' addresses behind its own, which `asked` has. As it is where
// nobody may list them.
std::string with_all_members(const std::string& url, const std::vector<ServerStatus>& asked) {
  const auto members = service_members(url);
  std::size_t end = url.find("://");
  if (!members || end == url.npos) return url;
  end = std::min(url.find_first_of("/?#", end + 3), url.size());
  std::string hosts;
  for (const ServerMember& each : *members) {
    const bool known = std::any_of(asked.begin(), asked.end(), [&](const ServerStatus& one) {
      return one.address == each.address;
    });
    if (!known) hosts += "," + each.address;
  }
  return url.substr(0, end) + hosts + url.substr(end);
}

// Where to ask for the servers after a step-down.
struct HandOver {
  std::string url;
  std::string all_members;  // The one that was asked may die, and be the only one of `url`.
  ServerStatus before{};
};

Result<std::vector<ServerStatus>> look_again(const HandOver& under_way) {
  auto servers = service_status(under_way.url);
  if (!servers) return servers;
  for (const ServerStatus& each : *servers) {
    if (each.trouble.empty()) return servers;
  }
  return service_status(under_way.all_members);
}

// Looks at the servers again and again, until `look` knows the exit status.
int await_hand_over(const HandOver& under_way, const Look& look) {
  constexpr std::chrono::seconds kPatience{60};
  constexpr std::chrono::milliseconds kBetweenLooks{200};
  const auto until = HandOverClock::now() + kPatience;
  while (HandOverClock::now() < until) {
    std::this_thread::sleep_for(kBetweenLooks);
    const auto servers = look_again(under_way);
    if (!servers) continue;
    if (const auto status = look(*servers)) return *status;
  }
  complain("server step-down: " + printable(under_way.before.address) +
           " was asked, and did not hand over within 60 s: 'holdfast server status' tells how it "
           "is");
  return kExitError;
}

int led_again(const ServerStatus& before, const std::string& what) {
  complain("server step-down: no other server took over" + what + ", so " +
           printable(before.address) + " leads again");
  return kExitError;
}

int not_taken_over(const ServerStatus& before, const std::string& what,
                   std::chrono::seconds after) {
  complain("server step-down: " + printable(before.address) +
           " has stepped down, and no other server took over" + what + " in " +
           format_duration(after) + ": 'holdfast server status' tells whether the journal answers");
  return kExitError;
}

// Asks until another server leads. The URL may name only the one that has stepped down.
int await_successor(const ServerToolOptions& options, const HandOver& under_way) {
  const ServerStatus& before = under_way.before;
  constexpr std::chrono::seconds kForSuccessor{10};  // Later than it would lead again.
  std::optional<HandOverClock::time_point> stands_by;
  const auto look = [&](const std::vector<ServerStatus>& servers) -> std::optional<int> {
    const ServerStatus* const next = leader_of(servers);
    if (next != nullptr && next->term != before.term) {
      if (next->address == before.address) return led_again(before, "");
      return tell_step_down(options, before.address, next->address);
    }
    for (const ServerStatus& each : servers) {
      if (each.address != before.address || !each.trouble.empty() || each.leads) continue;
      if (!stands_by) stands_by = HandOverClock::now();
      const std::string leader = successor_of(under_way.url, each);
      if (!leader.empty()) return tell_step_down(options, before.address, leader);
      if (HandOverClock::now() - *stands_by >= kForSuccessor) {
        return not_taken_over(before, "", kForSuccessor);
      }
    }
    return std::nullopt;
  };
  return await_hand_over(under_way, look);
}

// Several shards: who leads those that `before` led.
struct Successors {
  std::vector<std::string> leaders;    // By shard; empty: none that answers, or `before`.
  std::vector<std::uint32_t> missing;  // Nobody else leads these.
  std::vector<std::uint32_t> kept;     // `before` leads these.
  bool answers = false;                // `before` does.
};

Successors find_successors(const std::vector<ServerStatus>& servers, const ServerStatus& before) {
  Successors found{std::vector<std::string>(before.shards), {}, {}};
  for (const ServerStatus& each : servers) {
    if (each.address == before.address) {
      found.kept = each.led;
      found.answers = each.trouble.empty();
    }
    for (const std::uint32_t shard : each.led) {
      if (each.address != before.address && shard < before.shards) {
        found.leaders[shard] = each.address;
      }
    }
  }
  for (const std::uint32_t shard : before.led) {
    if (found.leaders[shard].empty()) found.missing.push_back(shard);
  }
  return found;
}

int tell_successors(const ServerToolOptions& options, const ServerStatus& before,
                    const Successors& found) {
  std::map<std::string, std::vector<std::uint32_t>> by_leader;
  for (const std::uint32_t shard : before.led) by_leader[found.leaders[shard]].push_back(shard);
  std::string text = printable(before.address) + " has stepped down:";
  for (const auto& [leader, shards] : by_leader) {
    text +=
        (text.ends_with(':') ? " " : ", ") + printable(leader) + " leads " + shards_text(shards);
  }
  return answer(options.common,
                {{"stepped_down", before.address}, {"shard_leaders", found.leaders}}, text + "\n");
}

// Asks until other servers lead all that it led.
int await_successors(const ServerToolOptions& options, const HandOver& under_way) {
  const ServerStatus& before = under_way.before;
  constexpr std::chrono::seconds kForSuccessors{15};  // Later than it would lead again.
  std::vector<std::uint32_t> kept = before.led;
  auto same_since = HandOverClock::now();
  std::optional<HandOverClock::time_point> handed_over;
  const auto look = [&](const std::vector<ServerStatus>& servers) -> std::optional<int> {
    const Successors found = find_successors(servers, before);
    if (found.missing.empty()) return tell_successors(options, before, found);
    const std::string what = " " + shards_text(found.missing);
    if (!handed_over && found.answers && found.kept.empty()) handed_over = HandOverClock::now();
    // One that does not answer may have died, and then another one leads in a while.
    if (!found.answers || found.kept != kept) same_since = HandOverClock::now();
    if (found.answers) kept = found.kept;
    // Where all others step down meanwhile, it gives nothing away.
    const bool stays = !kept.empty() && HandOverClock::now() - same_since >= kForSuccessors;
    if (stays || (handed_over && !found.kept.empty())) return led_again(before, what);
    if (handed_over && HandOverClock::now() - *handed_over >= kForSuccessors) {
      return not_taken_over(before, what, kForSuccessors);
    }
    return std::nullopt;
  };
  return await_hand_over(under_way, look);
}

int hand_over(const ServerToolOptions& options, const Settings& settings) {
  const auto servers = service_status(settings.store.url);
  if (!servers) return fail(servers.error(), settings.shown_store);
  if (std::string mixed = strangers(*servers); !mixed.empty()) {
    mixed.pop_back();
    complain("server step-down: " + mixed);
    return kExitError;
  }
  HandOver under_way{.url = settings.store.url,
                     .all_members = with_all_members(settings.store.url, *servers)};
  const auto asked = step_down(under_way.url, options.address);
  const auto vacant = vacant_shards(*servers);
  const bool several = has_several_shards(*servers);
  if (!asked && !several && asked.error().code() == Errc::kUnavailable && !vacant.empty()) {
    std::string why = sentences(vacant, *servers);
    why.pop_back();
    complain("server step-down: no server leads that could step down: " + why);
    return kExitError;
  }
  if (!asked && asked.error().code() == Errc::kUnsupported) {
    complain("server step-down: " + asked.error().message() +
             ": 'holdfast server status' tells who leads");
    return kExitError;
  }
  if (!asked) return fail(asked.error(), settings.shown_store);
  const auto one = std::find_if(servers->begin(), servers->end(), [&](const ServerStatus& each) {
    return each.address == *asked && each.shards > 1;
  });
  if (one != servers->end()) {
    under_way.before = *one;
    return await_successors(options, under_way);
  }
  if (several) {
    // It is known by another address only.
    return answer(options.common, {{"stepped_down", *asked}, {"shard_leaders", Json::array()}},
                  printable(*asked) + " steps down: 'holdfast server status' tells who leads\n");
  }
  const ServerStatus* const leader = leader_of(*servers);
  under_way.before = leader != nullptr ? *leader : ServerStatus{.address = *asked};
  return await_successor(options, under_way);
}

// An entry of an older version does not tell how many.
std::string lead_text(std::uint32_t shards, bool several) {
  if (!several || shards == 0) return "leads";
  return "leads " + std::to_string(shards) + (shards == 1 ? " shard" : " shards");
}

// `named`: as the servers of the URL told, since they may be of several services.
int show_members(const ServerToolOptions& options, const std::vector<ServerMember>& members,
                 const std::vector<ServerStatus>& named) {
  Table table({"SERVER", "ROLE", "SINCE", "VERSION"});
  Json json = {{"members", Json::array()}};
  std::string troubles;
  const bool several = has_several_shards(named);
  for (const ServerMember& each : members) {
    const bool dated = each.since != std::chrono::system_clock::time_point();
    const std::string since = dated ? utc_text(each.since) : "";
    json["members"].push_back({{"address", each.address},
                               {"version", each.version},
                               {"leads", each.leads},
                               {"shards", each.shards},
                               {"http", each.http},
                               {"since", since},
                               {"trouble", each.trouble},
                               {"refused", each.refused}});
    table.add({printable(each.address),
               !each.trouble.empty() ? silence_word(each.refused)
               : each.leads          ? lead_text(each.shards, several)
                                     : "stands by",
               dated ? since : "-", each.version.empty() ? "-" : printable(each.version)});
    if (!each.trouble.empty()) troubles += printable(each.trouble) + "\n";
  }
  json["unlisted"] = Json::array();
  for (const ServerStatus& each : named) {
    const bool listed = std::any_of(members.begin(), members.end(), [&](const ServerMember& one) {
      return one.address == each.address;
    });
    if (each.trouble.empty() || listed) continue;
    json["unlisted"].push_back(to_json(each));
    troubles += printable(each.address) + " is not on the list: " + silence_word(each.refused) +
                ": " + printable(each.trouble) + "\n";
  }
  const std::string mixed = strangers(named);
  json["one_service"] = mixed.empty();
  const int told = answer(options.common, json,
                          table.to_string(colour_wanted(), terminal_width()) + troubles + mixed);
  return told == 0 && !mixed.empty() ? kExitUnhealthy : told;
}

int drain(const ServerToolOptions& options, const Settings& settings) {
  constexpr std::chrono::seconds kPatience{60};
  const auto gone = drain_server(settings.store.url, options.address, kPatience);
  if (!gone) return fail(gone.error(), settings.shown_store);
  return answer(options.common, {{"drained", *gone}}, printable(*gone) + " is gone\n");
}

int use_servers(const ServerToolOptions& options) {
  Settings settings;
  if (auto resolved = resolve(options.common, settings); !resolved) {
    return fail(resolved.error(), "");
  }
  if (options.verb == "status") {
    const auto servers = service_status(settings.store.url);
    return servers ? show_status(options, *servers) : fail(servers.error(), settings.shown_store);
  }
  if (options.verb == "members") {
    const auto members = service_members(settings.store.url);
    if (!members) return fail(members.error(), settings.shown_store);
    const auto servers = service_status(settings.store.url);
    if (!servers) return fail(servers.error(), settings.shown_store);
    return show_members(options, *members, *servers);
  }
  if (options.verb == "drain") return drain(options, settings);
  return hand_over(options, settings);
}

int hash_from_stdin(const ServerToolOptions& options) {
  const auto password = read_password();
  const auto hash = password ? hash_password(*password) : password;
  if (!hash) {
    complain("server password: " + printable(hash.error().message()));
    return kExitError;
  }
  CommonOptions told = options.common;
  told.quiet = false;  // Else the hash would be lost.
  return answer(told, {{"hash", *hash}}, *hash + "\n");
}

}  // namespace

int server_command(const ServerToolOptions& options) {
  set_log_format(options.common.log_format.value_or(LogFormat::kText));
  if (options.verb == "password") return hash_from_stdin(options);
  if (asks_servers(options.verb)) return use_servers(options);
  const auto report = perform(options);
  if (!report) {
    complain("server " + options.verb + ": " + printable(report.error().message()));
    return kExitError;
  }
  return answer(options.common,
                {{"journal_id", report->id},
                 {"term", report->term},
                 {"batches", report->batches},
                 {"bytes", report->bytes},
                 {"shards", report->shards},
                 {"locks", report->locks},
                 {"holders", report->holders},
                 {"waiters", report->waiters}},
                sentence(options, *report));
}

}  // namespace holdfast::cli
