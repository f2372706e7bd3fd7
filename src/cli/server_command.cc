// `server`: a lock service's journal in the hands of an operator.

#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/server_tools.h"
#include "holdfast/stores.h"
#include "src/cli/commands.h"
#include "src/cli/exit_codes.h"
#include "src/cli/options/duration.h"
#include "src/cli/options/settings.h"
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
  text += "\n  journal " + report.id + ", term " + printable(report.term) + ", batch " +
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

std::string role_of(const ServerStatus& server) {
  if (!server.trouble.empty()) return "no answer";
  const std::string trouble = server.full                ? ", journal full"
                              : server.quiet.count() > 0 ? ", restored: grants nothing"
                                                         : "";
  if (server.shards > 1) {
    return "leads " + std::to_string(server.leading) + " of " + std::to_string(server.shards) +
           trouble;
  }
  if (server.leads) return "leads" + trouble;
  return server.leader.empty() ? "stands by" : "stands by for " + printable(server.leader);
}

// The server that leads each of several shards; empty: not known.
std::vector<std::string> shard_leaders(const ServerStatus& server) {
  std::vector<std::string> leaders;
  if (server.shards == 1 || server.leader.empty()) return leaders;
  std::istringstream list(server.leader);
  for (std::string each; std::getline(list, each, ',');) leaders.push_back(each);
  leaders.resize(server.shards);
  return leaders;
}

Json to_json(const ServerStatus& server) {
  if (!server.trouble.empty()) return {{"address", server.address}, {"trouble", server.trouble}};
  return {{"address", server.address},
          {"leads", server.leads},
          {"leader", server.shards > 1 ? "" : server.leader},
          {"version", server.version},
          {"journal_id", server.journal_id},
          {"term", server.term},
          {"pid", server.pid},
          {"uptime_s", server.uptime.count()},
          {"connections", server.connections},
          {"holders", server.holders},
          {"waiters", server.waiters},
          {"full", server.full},
          {"quiet_s", server.quiet.count()},
          {"shards", server.shards},
          {"leading", server.leading},
          {"shard_leaders", shard_leaders(server)}};
}

// No server leads these shards, as far as these servers know.
std::vector<std::size_t> vacant_shards(const std::vector<ServerStatus>& servers) {
  std::vector<bool> led;
  for (const ServerStatus& each : servers) {
    const auto leaders = shard_leaders(each);
    led.resize(std::max(led.size(), leaders.size()));
    for (std::size_t shard = 0; shard < leaders.size(); ++shard) {
      led[shard] = led[shard] || !leaders[shard].empty();
    }
  }
  std::vector<std::size_t> vacant;
  for (std::size_t shard = 0; shard < led.size(); ++shard) {
    if (!led[shard]) vacant.push_back(shard);
  }
  return vacant;
}

// 0: one of them leads, and no shard is without a leader. 1: otherwise.
int show_status(const ServerToolOptions& options, const std::vector<ServerStatus>& servers) {
  Table table({"SERVER", "ROLE", "TERM", "UP", "CONNECTIONS", "HOLDERS", "WAITERS"});
  Json json = {{"servers", Json::array()}};
  std::string troubles;
  bool led = false;
  for (const ServerStatus& each : servers) {
    led = led || each.leads;
    json["servers"].push_back(to_json(each));
    if (!each.trouble.empty()) {
      table.add({printable(each.address), role_of(each), "-", "-", "-", "-", "-"});
      troubles += printable(each.trouble) + "\n";
      continue;
    }
    table.add({printable(each.address), role_of(each),
               each.term.empty() ? "-" : printable(each.term), format_duration(each.uptime),
               std::to_string(each.connections), std::to_string(each.holders),
               std::to_string(each.waiters)});
  }
  const auto vacant = vacant_shards(servers);
  for (const std::size_t each : vacant) {
    troubles += "no server leads shard " + std::to_string(each) + "\n";
  }
  json["vacant_shards"] = vacant;
  const int told =
      answer(options.common, json, table.to_string(colour_wanted(), terminal_width()) + troubles);
  return told == 0 && (!led || !vacant.empty()) ? 1 : told;
}

const ServerStatus* leader_of(const std::vector<ServerStatus>& servers) {
  const auto leads = std::find_if(servers.begin(), servers.end(),
                                  [](const ServerStatus& each) { return each.leads; });
  return leads == servers.end() ? nullptr : &*leads;
}

// Asks until a term begins that is not the one of `before`.
int await_successor(const ServerToolOptions& options, const std::string& url,
                    const ServerStatus& before) {
  constexpr std::chrono::seconds kPatience{60};
  constexpr std::chrono::milliseconds kBetweenLooks{200};
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(kBetweenLooks);
    const auto servers = service_status(url);
    const ServerStatus* const next = servers ? leader_of(*servers) : nullptr;
    if (next == nullptr || next->term == before.term) continue;
    if (next->address != before.address) {
      return answer(options.common, {{"stepped_down", before.address}, {"leader", next->address}},
                    printable(before.address) + " has stepped down, and " +
                        printable(next->address) + " leads\n");
    }
    complain("server step-down: no other server took over, so " + printable(before.address) +
             " leads again");
    return kExitError;
  }
  complain("server step-down: " + printable(before.address) +
           " was asked, and no server that the URL names leads in a new term after 60 s");
  return kExitError;
}

int hand_over(const ServerToolOptions& options, const Settings& settings) {
  const auto servers = service_status(settings.store.url);
  if (!servers) return fail(servers.error(), settings.shown_store);
  const auto asked = step_down(settings.store.url);
  if (!asked) return fail(asked.error(), settings.shown_store);
  const ServerStatus* const before = leader_of(*servers);
  return await_successor(options, settings.store.url,
                         before != nullptr ? *before : ServerStatus{.address = *asked});
}

int show_members(const ServerToolOptions& options, const std::vector<ServerMember>& members) {
  Table table({"SERVER", "ROLE", "SINCE", "VERSION"});
  Json json = {{"members", Json::array()}};
  for (const ServerMember& each : members) {
    const bool dated = each.since != std::chrono::system_clock::time_point();
    const std::string since = dated ? iso_time(each.since) : "";
    json["members"].push_back({{"address", each.address},
                               {"version", each.version},
                               {"leads", each.leads},
                               {"shards", each.shards},
                               {"since", since}});
    const std::string role =
        each.shards > 1 ? "leads " + std::to_string(each.shards) + " shards" : "leads";
    table.add({printable(each.address), each.leads ? role : "stands by", dated ? since : "-",
               each.version.empty() ? "-" : printable(each.version)});
  }
  return answer(options.common, json, table.to_string(colour_wanted(), terminal_width()));
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
    return members ? show_members(options, *members) : fail(members.error(), settings.shown_store);
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
  return answer(options.common, {{"hash", *hash}}, *hash + "\n");
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
                 {"locks", report->locks},
                 {"holders", report->holders},
                 {"waiters", report->waiters}},
                sentence(options, *report));
}

}  // namespace holdfast::cli
