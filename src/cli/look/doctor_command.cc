// `doctor`: reports the state of the running store, and its guarantees.

#include <algorithm>
#include <array>
#include <string>

#include "holdfast/stores.h"
#include "src/cli/commands.h"
#include "src/cli/exit_codes.h"
#include "src/cli/options/settings.h"
#include "src/cli/service_state.h"
#include "src/cli/text/json.h"
#include "src/cli/text/output.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

// The names that --require takes.
struct NamedGuarantee {
  const char* name;
  bool Guarantees::*given;
  // If true, a store with a problem may break this guarantee.
  bool needs_health;
  const char* otherwise;  // Advice for users of a store without this guarantee.
};

constexpr char kRequireFenced[] =
    "let what the lock protects refuse old tokens, and require 'fenced' instead";

constexpr std::array<NamedGuarantee, 11> kPromises{{
    {"fenced", &Guarantees::fenced, true, nullptr},
    {"fair", &Guarantees::fair, false, nullptr},
    {"shared", &Guarantees::shared, false, nullptr},
    {"permits", &Guarantees::permits, false, nullptr},
    {"upgrade", &Guarantees::upgrade, false, nullptr},
    {"list", &Guarantees::list, false, nullptr},
    {"watch-every-change", &Guarantees::watch_every_change, false,
     "do not rely on seeing each hold: the tokens tell how many there were at least"},
    {"values", &Guarantees::values, false, nullptr},
    {"multi", &Guarantees::multi, false, nullptr},
    {"survives-restart", &Guarantees::survives_restart, true, kRequireFenced},
    {"survives-failover", &Guarantees::survives_failover, true, kRequireFenced},
}};

const char* mark(Severity severity) {
  switch (severity) {
    case Severity::kOk: return "ok";
    case Severity::kWarning: return "warning";
    case Severity::kProblem: return "PROBLEM";
  }
  return "?";
}

std::string findings_text(const std::vector<Finding>& findings, std::size_t width) {
  if (findings.empty()) return "";
  if (width == 0) {
    Table table({"", "TOPIC", "FOUND", "ADVICE"});
    for (const Finding& finding : findings) {
      table.add({mark(finding.severity), printable(finding.topic), printable(finding.what),
                 printable(finding.advice)});
    }
    return table.to_string(false, 0);
  }
  Table table({"", "TOPIC", "FOUND"});
  for (const Finding& finding : findings) {
    std::string found = printable(finding.what);
    if (!finding.advice.empty()) found += "\n-> " + printable(finding.advice);
    table.add({mark(finding.severity), printable(finding.topic), std::move(found)});
  }
  return table.to_string(colour_wanted(), width);
}

std::string promises_text(const Guarantees& all, std::size_t width) {
  const auto names = [&all](bool given) {
    std::string out;
    for (const NamedGuarantee& one : kPromises) {
      if (all.*one.given == given) out += std::string(out.empty() ? "" : " ") + one.name;
    }
    return out.empty() ? "nothing" : out;
  };
  Table table({"guarantees:", names(true)});
  table.add({"not guaranteed:", names(false)});
  return table.to_string(false, width);
}

// Longer lines are hard to read, however wide the terminal is.
std::size_t width_of_report() { return std::min<std::size_t>(terminal_width(), 100); }

std::string heading(const DoctorReport& report) {
  const Guarantees& all = report.guarantees;
  return "store " + printable(report.store) + " (" + printable(all.store) + ", for " +
         printable(all.scope) + ")\n";
}

// Empty for a healthy store: warnings are not failures.
std::string problems_text(const DoctorReport& report) {
  std::vector<Finding> problems;
  for (const Finding& finding : report.findings) {
    if (finding.severity == Severity::kProblem) problems.push_back(finding);
  }
  if (problems.empty()) return "";
  return heading(report) + findings_text(problems, width_of_report());
}

std::string doctor_text(const DoctorReport& report) {
  const std::size_t width = width_of_report();
  const Guarantees& all = report.guarantees;
  std::string out = heading(report);
  if (!report.findings.empty()) out += "\n" + findings_text(report.findings, width);
  Table faults({"WHEN", "ONE HOLDER", "TOKENS GROW", "NOTE"});
  for (const FaultRow& row : all.faults) {
    faults.add({printable(row.fault), guarantee_word(row.exclusion), guarantee_word(row.fencing),
                printable(row.note)});
  }
  if (!all.faults.empty()) out += "\n" + faults.to_string(colour_wanted(), width);
  out += "\n" + promises_text(all, width);
  return out + "\n" + (report.healthy() ? "healthy\n" : "NOT healthy: see the problems above\n");
}

struct Missing {
  const NamedGuarantee* promise;
  bool promised;  // The store declares it, but a problem was found.
};

// The required guarantees that the store does not give; nullopt after a complaint about an unknown
// name.
std::optional<std::vector<Missing>> find_missing(const DoctorOptions& options,
                                                 const DoctorReport& report) {
  std::vector<Missing> missing;
  for (const std::string& name : options.require) {
    std::string spelled = name;
    std::replace(spelled.begin(), spelled.end(), '_', '-');
    const auto* const found =
        std::find_if(kPromises.begin(), kPromises.end(),
                     [&](const NamedGuarantee& one) { return spelled == one.name; });
    if (found == kPromises.end()) {
      complain("doctor: --require: " + in_quotes(name) +
               " is not a guarantee (see 'holdfast help doctor')");
      return std::nullopt;
    }
    const bool promised = report.guarantees.*found->given;
    const bool kept = promised && (report.healthy() || !found->needs_health);
    if (!kept) missing.push_back({found, promised});
  }
  return missing;
}

// A way to get a guarantee on a store that has it in some set-ups only.
struct Remedy {
  std::string_view store;
  std::string_view guarantee;
  std::string_view advice;
};

constexpr Remedy kRemedies[] = {
    {"holdfast", "multi",
     "servers whose journal was begun with 'holdfast serve --shards 1' give it"},
    {"holdfast", "survives-restart",
     "a server whose journal is a folder or etcd gives it ('holdfast serve --data DIR')"},
    {"holdfast", "survives-failover",
     "several servers with a journal in etcd give it ('holdfast serve --journal etcd://...')"}};

// Advice for the store that is in use; empty: there is none.
std::string advice_on_own(const NamedGuarantee& promise, const StoreKind& own,
                          std::string_view url) {
  const auto& out = own.leaves_out;
  const bool can =
      own.shared_by_processes && std::find(out.begin(), out.end(), promise.name) == out.end();
  if (can && url_option(std::string(url), "recipe"))
    return "this one does without recipe= in its URL; ";
  for (const Remedy& remedy : kRemedies) {
    const bool fits = remedy.store == own.name && remedy.guarantee == promise.name;
    if (fits) return "here " + std::string(remedy.advice) + "; ";
  }
  if (!can) return {};
  return "here it depends on how the servers are set up (docs/stores/" + std::string(own.name) +
         ".md); ";
}

// Names what would help on this store, the other stores that guarantee it when set up by their
// pages, and what to do without them.
std::string advice_on(const NamedGuarantee& promise, std::string_view url) {
  const StoreKind* const own = store_of_url(url);
  std::string names;
  for (const StoreKind& store : known_stores()) {
    const auto& out = store.leaves_out;
    const bool has = std::find(out.begin(), out.end(), promise.name) == out.end();
    if (!store.shared_by_processes || !has || (own != nullptr && own->name == store.name)) continue;
    names += (names.empty() ? "" : ", ") + std::string(store.name);
  }
  std::string advice = own == nullptr ? std::string() : advice_on_own(promise, *own, url);
  advice += names.empty() ? "no other store that processes share guarantees it"
                          : "these do ('holdfast help stores'): " + names;
  if (promise.otherwise != nullptr) advice += std::string("; or ") + promise.otherwise;
  return advice;
}

void complain_of(const Missing& missing, const DoctorReport& report, std::string_view url) {
  const std::string name = in_quotes(missing.promise->name);
  if (!missing.promised) {
    complain("this store does not guarantee " + name + ", which --require asks for; " +
             advice_on(*missing.promise, url));
    return;
  }
  std::string problems;
  for (const Finding& finding : report.findings) {
    if (finding.severity != Severity::kProblem) continue;
    problems +=
        "; " + finding.topic + ": " + (finding.advice.empty() ? finding.what : finding.advice);
  }
  complain("this store, as it is now, cannot be relied on for " + name +
           ", which --require asks for: fix the problems above" + printable(problems));
}

// A client reaches one server for each shard. Others may be silent, or of another service.
void add_servers(std::vector<Finding>& findings, std::string_view url) {
  const StoreKind* const own = store_of_url(url);
  if (own == nullptr || !own->is_service) return;
  const auto servers = service_status(url);
  if (!servers) return;
  for (const ServerStatus& each : *servers) {
    if (each.trouble.empty()) continue;
    findings.push_back({Severity::kWarning, "servers",
                        each.address + ": " + silence_word(each.refused) + ": " + each.trouble,
                        "start it, or correct the URL"});
  }
  if (std::string mixed = strangers(*servers); !mixed.empty()) {
    mixed.pop_back();
    findings.push_back({Severity::kProblem, "servers", std::move(mixed),
                        "'holdfast server status' shows each of them"});
  }
}

int diagnose(const Client& client, const DoctorOptions& options, const Settings& settings) {
  auto report = client.doctor();
  if (!report) return fail(report.error(), settings.shown_store);
  add_servers(report->findings, settings.store.url);
  const auto missing = find_missing(options, *report);
  if (!missing) return kExitError;
  if (options.common.json) {
    Json out = to_json(*report);
    out["missing"] = Json::array();
    for (const Missing& one : *missing) out["missing"].push_back(one.promise->name);
    print(to_line(out));
  } else {
    print(options.common.quiet ? problems_text(*report) : doctor_text(*report));
  }
  if (!flush_output()) return kExitError;
  for (const Missing& one : *missing) complain_of(one, *report, settings.store.url);
  return report->healthy() && missing->empty() ? 0 : kExitUnhealthy;
}

}  // namespace

int doctor_command(const DoctorOptions& options) {
  return with_client(options.common, [&](Client& client, const Settings& settings) {
    return diagnose(client, options, settings);
  });
}

}  // namespace holdfast::cli
