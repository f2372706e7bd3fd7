#include "src/cli/text/json.h"

#include <chrono>
#include <vector>

#include "src/cli/exit_codes.h"
#include "src/cli/look/outcomes.h"
#include "src/cli/look/who.h"
#include "src/cli/options/values.h"
#include "src/cli/text/output.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json left_json(const OwnerInfo& who, std::chrono::milliseconds time_left) {
  const auto left = left_of(who, time_left);
  return left ? Json(left->count()) : Json(nullptr);
}

void add_who(Json& into, const OwnerInfo& who) {
  into["owner"] = text_or_null(who.owner);
  into["host"] = text_or_null(who.host);
  into["pid"] = who.pid == 0 ? Json(nullptr) : Json(who.pid);
  into["program"] = who.program;
  into["since"] = knows_since(who) ? Json(utc_text(who.since)) : Json(nullptr);
  into["reason"] = who.reason;
  into["trace_id"] = who.trace_id;
}

// The fields that every description of a grant, a wait or a break has.
Json nobody(const std::string& name) {
  Json out;
  out["name"] = name;
  for (const char* key : {"token", "mode", "owner", "host", "pid", "program", "since", "reason",
                          "trace_id", "time_left_ms"}) {
    out[key] = nullptr;
  }
  return out;
}

Json token_or_null(const Token& token) {
  return token == Token{} ? Json(nullptr) : Json(token.to_string());
}

// A holder or a waiter. A waiter has no token.
template <typename Entry>
Json entry_json(const std::string& name, const Entry& entry) {
  Json out = nobody(name);
  if constexpr (requires { entry.token; }) out["token"] = token_or_null(entry.token);
  out["mode"] = mode_text(entry.mode);
  add_who(out, entry.who);
  out["time_left_ms"] = left_json(entry.who, entry.time_left);
  if constexpr (requires { entry.lock_delay; }) {
    if (entry.lock_delay.count() > 0) out["lock_delay_ms"] = entry.lock_delay.count();
  }
  return out;
}

template <typename Entry>
Json entries_json(const std::string& name, const std::vector<Entry>& entries) {
  Json out = Json::array();
  for (const Entry& entry : entries) out.push_back(entry_json(name, entry));
  return out;
}

Json break_json(const std::string& name, const BreakInfo& trace) {
  Json out = nobody(name);
  out["token"] = trace.token.to_string();
  add_who(out, trace.by);
  return out;
}

std::string severity_word(Severity severity) {
  switch (severity) {
    case Severity::kOk: return "ok";
    case Severity::kWarning: return "warning";
    case Severity::kProblem: return "problem";
  }
  return "problem";
}

Json guarantees_json(const Guarantees& all) {
  Json out;
  out["store"] = all.store;
  out["scope"] = all.scope;
  out["fenced"] = all.fenced;
  out["fair"] = all.fair;
  out["shared"] = all.shared;
  out["permits"] = all.permits;
  out["upgrade"] = all.upgrade;
  out["list"] = all.list;
  out["watch_every_change"] = all.watch_every_change;
  out["values"] = all.values;
  out["multi"] = all.multi;
  out["bound_to_client"] = all.bound_to_client;
  out["ends_with_client"] = all.ends_with_client;
  out["survives_restart"] = all.survives_restart;
  out["survives_failover"] = all.survives_failover;
  out["min_ttl_ms"] = all.min_ttl.count();
  out["max_ttl_ms"] = all.max_ttl.count();
  out["least_renewal_ms"] = all.least_renewal.count();
  out["faults"] = Json::array();
  for (const FaultRow& row : all.faults) {
    out["faults"].push_back({{"fault", row.fault},
                             {"exclusion", guarantee_word(row.exclusion)},
                             {"fencing", guarantee_word(row.fencing)},
                             {"note", row.note}});
  }
  return out;
}

}  // namespace

std::string to_line(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

int answer(const CommonOptions& common, const Json& json, const std::string& text) {
  if (common.json) {
    print(to_line(json));
  } else if (!common.quiet) {
    print(text);
  }
  return flush_output() ? 0 : kExitError;
}

std::string mode_text(const Mode& mode) {
  if (mode.kind() != Mode::Kind::kPermits) return mode_word(mode);
  return "permits " + std::to_string(mode.count()) + "/" + std::to_string(mode.capacity());
}

std::string guarantee_word(Guarantee given) {
  switch (given) {
    case Guarantee::kYes: return "yes";
    case Guarantee::kDeclared: return "declared";
    case Guarantee::kNo: return "no";
  }
  return "no";
}

Json free_lock_json(const std::string& name) {
  LockInfo info;
  info.name = name;
  return to_json(info);
}

Json to_json(const LockInfo& info) {
  Json out;
  out["name"] = info.name;
  out["held"] = !info.holders.empty();
  out.update(info.holders.empty() ? nobody(info.name)
                                  : entry_json(info.name, info.holders.front()));
  out["last_token"] = token_or_null(info.last_token);
  out["holders"] = entries_json(info.name, info.holders);
  out["waiters"] = entries_json(info.name, info.waiters);
  if (const auto left = info.opens_in(); left.count() > 0) out["opens_in_ms"] = left.count();
  out["last_break"] = info.last_break ? break_json(info.name, *info.last_break) : Json(nullptr);
  return out;
}

Json to_json(const Finished& once) {
  Json out = to_json(once.lock);
  out["outcome"] = once.outcome;
  return out;
}

std::string event_word(LockEventKind kind) {
  switch (kind) {
    case LockEventKind::kGranted: return "granted";
    case LockEventKind::kQueued: return "queued";
    case LockEventKind::kReleased: return "released";
    case LockEventKind::kExpired: return "expired";
    case LockEventKind::kCancelled: return "cancelled";
    case LockEventKind::kBroken: return "broken";
    case LockEventKind::kForgotten: return "forgotten";
    case LockEventKind::kMissed: return "missed";
  }
  return "?";
}

Json to_json(const LockEvent& event) {
  Json out;
  out["event"] = event_word(event.kind);
  out["time"] = utc_text(std::chrono::system_clock::now());
  out["name"] = event.name;
  out["token"] = token_or_null(event.token);
  add_who(out, event.who);
  const bool granted = event.kind == LockEventKind::kGranted;
  out["time_left_ms"] = granted ? left_json(event.who, event.time_left) : Json(nullptr);
  return out;
}

Json to_json(const DoctorReport& report) {
  Json out;
  out["store"] = report.store;
  out["healthy"] = report.healthy();
  out["guarantees"] = guarantees_json(report.guarantees);
  out["findings"] = Json::array();
  for (const Finding& finding : report.findings) {
    out["findings"].push_back({{"severity", severity_word(finding.severity)},
                               {"topic", finding.topic},
                               {"what", finding.what},
                               {"advice", finding.advice}});
  }
  return out;
}

}  // namespace holdfast::cli
