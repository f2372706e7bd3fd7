#include "src/server/http/lock_answers.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "src/port/outcome.h"
#include "src/server/front/libraries/library_owner.h"

namespace holdfast::server {

using nlohmann::json;

HttpAnswer as_json(unsigned status, const json& body) {
  return {.status = status,
          .body = body.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"};
}

HttpAnswer failed(const Error& error) {
  switch (error.code()) {
    case Errc::kPermissionDenied:
      return http_error(403, "no_right", error.message(), "ask for the right in the users file");
    case Errc::kQueueFull: {
      HttpAnswer answer = http_error(429, "too_many", error.message(), "wait, then repeat it");
      answer.headers.emplace_back("Retry-After", "1");
      return answer;
    }
    case Errc::kOutcomeUnknown:
      return http_error(503, "outcome_unknown", error.message(), "repeat it with the same id");
    case Errc::kInvalidArgument: return bad_request(error.message());
    case Errc::kUnsupported:
      return http_error(409, "used_up", error.message(), "ask the operator for another namespace");
    case Errc::kCorruptState:
      return http_error(503, "stopped", error.message(), "ask the operator");
    case Errc::kCancelled:
      return http_error(409, "released", error.message(), "ask again, with another id");
    case Errc::kClosed: return http_error(409, "replaced", error.message(), "await the later call");
    default: {
      HttpAnswer answer = http_error(503, "unavailable", error.message(), "repeat it");
      answer.headers.emplace_back("Retry-After", "1");
      return answer;
    }
  }
}

HttpAnswer standing_by(const std::string& leader, const std::string& why) {
  std::string message =
      leader.empty() ? "no server leads yet" : "the server at " + leader + " leads";
  if (!why.empty()) message += ", and this one cannot ask it: " + why;
  // That server may be dead, and then another one leads in a moment.
  const char* const next = leader.empty() ? "repeat it" : "repeat it, or ask that server";
  HttpAnswer answer = http_error(503, "standing_by", message, next);
  answer.headers.emplace_back("Retry-After", "1");
  return answer;
}

namespace {

// A queue may be long, and the loop writes its text.
constexpr std::size_t kShownTickets = 100;

json ticket_json(const machine::TicketImage& ticket, machine::Instant at,
                 const AccountPtr& account) {
  json out = {
      {"mode", ticket.mode.kind == machine::ModeKind::kShared      ? "shared"
               : ticket.mode.kind == machine::ModeKind::kExclusive ? "exclusive"
                                                                   : "permits"},
      {"expires_in_ms", millis(std::max(ticket.lease_end - at, machine::Duration::zero()))}};
  if (ticket.held) out["token"] = std::to_string(ticket.token.counter);
  if (const auto delay = port::delay_of(ticket); ticket.held && delay.count() > 0) {
    out["lock_delay_ms"] = delay.count();
  }
  if (ticket.owner != nullptr) {
    out["owner"] = shown_owner(account, ticket.owner)->owner;
    out["host"] = ticket.owner->host;
    out["pid"] = ticket.owner->pid;
    out["program"] = ticket.owner->program;
    out["reason"] = ticket.owner->reason;
    out["since_unix_ms"] = ticket.owner->since_unix_ms;
  }
  return out;
}

}  // namespace

json sight_json(const LockSight& sight, const AccountPtr& account) {
  json holders = json::array();
  json queue = json::array();
  std::size_t holding = 0;
  std::size_t waiting = 0;
  LockInfo info;  // Its holders alone.
  if (sight.lock) {
    for (const auto& ticket : sight.lock->tickets) {
      if (ticket.system) continue;
      if (ticket.held) info.holders.push_back(port::to_holder_info(ticket, sight.at));
      if (++(ticket.held ? holding : waiting) > kShownTickets) continue;
      (ticket.held ? holders : queue).push_back(ticket_json(ticket, sight.at, account));
    }
  }
  json out = {{"name", sight.name},
              {"holding", holding},
              {"waiting", waiting},
              {"holders", holders},
              {"queue", queue}};
  if (const auto left = info.opens_in(); left.count() > 0) out["opens_in_ms"] = left.count();
  if (sight.last_break) {
    out["last_break"] = {{"token", std::to_string(sight.last_break->token.counter)}};
    if (sight.last_break->by != nullptr) {
      out["last_break"]["by"] = sight.last_break->by->owner;
      out["last_break"]["reason"] = sight.last_break->by->reason;
    }
  }
  return out;
}

}  // namespace holdfast::server
