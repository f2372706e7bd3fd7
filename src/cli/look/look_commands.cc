// Looking and interfering: `ls`, `inspect`, `watch`, `break`.

#include <cstddef>
#include <optional>
#include <utility>

#include "src/cli/commands.h"
#include "src/cli/exit_codes.h"
#include "src/cli/look/follow.h"
#include "src/cli/look/outcomes.h"
#include "src/cli/look/who.h"
#include "src/cli/options/config.h"
#include "src/cli/options/duration.h"
#include "src/cli/options/settings.h"
#include "src/cli/process/signals.h"
#include "src/cli/run/lock_attempt.h"
#include "src/cli/text/json.h"
#include "src/cli/text/output.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

// The reason, and below it the trace id.
std::string why_text(const OwnerInfo& who) {
  if (who.trace_id.empty()) return printable(who.reason);
  return printable(who.reason) + (who.reason.empty() ? "" : "\n") + "trace " +
         printable(who.trace_id);
}

std::string ls_text(const std::vector<LockInfo>& locks, const std::vector<Finished>& finished) {
  Table table({"NAME", "MODE", "HOLDER", "HOST", "PID", "SINCE", "LEFT", "WAITING", "REASON"});
  for (const LockInfo& lock : locks) {
    const std::string waiting = std::to_string(lock.waiters.size());
    if (lock.holders.empty()) {
      table.add({printable(lock.name), "-", "-", "-", "-", "-", "-", waiting, ""});
    }
    // Nobody holds it any more: the row tells who did, and when the lock is free.
    const bool closed = lock.opens_in() > Duration::zero();
    for (const HolderInfo& holder : lock.holders) {
      table.add({printable(lock.name), closed ? "lock-delay" : mode_text(holder.mode),
                 who_text(holder.who), host_text(holder.who), pid_text(holder.who),
                 since_text(holder.who), left_text(holder), waiting, printable(holder.who.reason)});
    }
  }
  for (const Finished& once : finished) {
    const HolderInfo& by = once.lock.holders.front();
    table.add({printable(once.lock.name), "finished", who_text(by.who), host_text(by.who),
               pid_text(by.who), since_text(by.who), left_text(by), "0",
               "outcome: " + printable(once.outcome)});
  }
  return table.to_string(colour_wanted(), terminal_width());
}

constexpr char kNoTrace[] = "; the store keeps no record of its last holder\n";

std::string inspect_text(const LockInfo& info) {
  const bool closed = info.opens_in() > Duration::zero();
  std::string out = printable(info.name) + ": ";
  out += closed ? "held by nobody" : info.holders.empty() ? "free" : "held";
  if (info.last_token != Token{}) {
    out += ", last token " + info.last_token.to_string() + "\n";
  } else {
    out += info.holders.empty() ? kNoTrace : ", with a token that cannot be read\n";
  }
  if (!info.holders.empty() || !info.waiters.empty()) {
    Table table({"", "WHO", "HOST", "PID", "MODE", "SINCE", "LEFT", "TOKEN", "REASON"});
    for (const HolderInfo& holder : info.holders) {
      table.add({closed ? "last holder" : "holder", who_text(holder.who), host_text(holder.who),
                 pid_text(holder.who), mode_text(holder.mode), since_text(holder.who),
                 left_text(holder), token_text(holder.token), why_text(holder.who)});
    }
    std::size_t place = 0;
    for (const WaiterInfo& waiter : info.waiters) {
      table.add({"waiter " + std::to_string(++place), who_text(waiter.who), host_text(waiter.who),
                 pid_text(waiter.who), mode_text(waiter.mode), since_text(waiter.who), "-", "-",
                 why_text(waiter.who)});
    }
    out += table.to_string(colour_wanted(), terminal_width());
  }
  if (const auto left = info.opens_in(); left.count() > 0) {
    out +=
        "its holder did not release it, and no longer counts on it: the lock-delay keeps it "
        "closed for " +
        format_duration(left) + " more\n";
  }
  if (info.last_break) {
    const OwnerInfo& by = info.last_break->by;
    out += "last broken: token " + info.last_break->token.to_string() + " by " + sentence_of(by) +
           ", " + local_time(by.since) + (by.reason.empty() ? "" : ": " + printable(by.reason)) +
           "\n";
  }
  return out;
}

// The holder's proclamation as a leader; empty: none, or it does not lead in an election.
std::string proclaimed_by(Client& client, const LockInfo& info) {
  if (info.holders.size() != 1 || info.holders.front().mode != Mode::exclusive()) return {};
  const auto leader = client.election(info.name).leader();
  if (!leader || !*leader || (*leader)->token != info.holders.front().token) return {};
  return (*leader)->value;
}

void print_lock(const LockInfo& info, const std::string& value,
                const std::optional<std::string>& outcome, bool json) {
  if (json) {
    Json out = outcome ? to_json(Finished{info, *outcome}) : to_json(info);
    if (!value.empty()) out["value"] = value;
    return print(to_line(out));
  }
  print(inspect_text(info));
  if (!value.empty()) print("proclaims: " + printable(value) + "\n");
  if (outcome) {
    print("finished: a once-guard, nobody runs under it; its outcome is remembered for " +
          left_text(info.holders.front()) + ": " + printable(*outcome) + "\n");
  }
}

std::string event_text(const LockEvent& event) {
  std::string out = local_time(std::chrono::system_clock::now()) + "  " + event_word(event.kind);
  out.append(out.size() < 20 ? 20 - out.size() : 1, ' ');
  if (event.kind == LockEventKind::kMissed) {
    return out +
           " changes before now are missing: the connection to the store was lost, or nobody read "
           "this\n";
  }
  out += " " + printable(event.name) + "  " + sentence_of(event.who);
  if (event.token != Token{}) out += "  token " + event.token.to_string();
  if (!event.who.reason.empty()) out += "  " + printable(event.who.reason);
  if (!event.who.trace_id.empty()) out += "  trace " + printable(event.who.trace_id);
  return out + "\n";
}

using EventsPtr = std::shared_ptr<EventQueue<LockEvent>>;

int watch_events(const Client& client, const EventsPtr& queue, const LookOptions& options,
                 const Settings& settings, const Signals& signals) {
  const auto watch =
      client.watch(options.name, [queue, prefix = options.name](const LockEvent& event) {
        if (queue->push(event)) return;
        queue->push({LockEventKind::kMissed, prefix, {}, {}, {}});
      });
  if (!watch) return fail(watch.error(), settings.shown_store);
  return follow(*queue, signals, options.count, [&](const LockEvent& event) {
    return options.common.json ? to_line(to_json(event)) : event_text(event);
  });
}

}  // namespace

constexpr std::size_t kMostListed = 1'000'000;

int ls_command(const LookOptions& options) {
  // Even with -q, because a lock that is missing from the list is a failure.
  const Alarms alarms(relay);
  std::string none;
  std::size_t hidden = 0;
  const int status =
      with_client(options.common, alarms, [&](Client& client, const Settings& settings) {
        // One more shows that the list is longer.
        auto locks = client.list(options.name, kMostListed + 1);
        if (!locks) return fail(locks.error(), settings.shown_store);
        const bool all = locks->size() <= kMostListed;
        if (!all) locks->pop_back();
        std::vector<Finished> finished = Outcomes(client).take_from(*locks);
        if (!options.outcomes) hidden = std::exchange(finished, {}).size();
        if (options.common.json) {
          Json list = Json::array();
          for (const LockInfo& lock : *locks) list.push_back(to_json(lock));
          for (const Finished& once : finished) list.push_back(to_json(once));
          print(to_line(list));
        } else if (!locks->empty() || !finished.empty()) {
          print(ls_text(*locks, finished));
        } else {
          none = "nobody holds a lock" +
                 (options.name.empty() ? std::string()
                                       : " whose name begins with " + in_quotes(options.name)) +
                 " in " + printable(shortened(settings.shown_store));
        }
        if (!flush_output()) return kExitError;
        if (!all) complain("... and more: these are the first " + std::to_string(kMostListed));
        return all ? 0 : kExitUnhealthy;
      });
  if (status != 0) return status;
  if (alarms.count() == 0) {
    if (!none.empty() && !options.common.quiet) complain(none);
    if (hidden > 0 && !options.common.quiet && !options.common.json) {
      complain(std::to_string(hidden) +
               " outcome(s) of finished once-guards are not listed: --outcomes shows them");
    }
    return 0;
  }
  complain("the list is incomplete: the lines above name what is missing or shown in part");
  return kExitUnhealthy;
}

int inspect_command(const LookOptions& options) {
  return with_client(options.common, [&](Client& client, const Settings& settings) {
    const auto info = client.inspect(options.name);
    if (!info) return fail(info.error(), settings.shown_store);
    if (*info) {
      print_lock(**info, proclaimed_by(client, **info), outcome_of(client, **info),
                 options.common.json);
    } else {
      const Guarantees given = client.guarantees();
      const bool forgets = given.bound_to_client || !given.fenced;
      const char* const before = forgets ? kNoTrace : ", never held\n";
      print(options.common.json ? to_line(free_lock_json(options.name))
                                : printable(options.name) + ": free" + before);
    }
    return flush_output() ? 0 : kExitError;
  });
}

int watch_command(const LookOptions& options) {
  const Signals signals;
  const auto queue = std::make_shared<EventQueue<LockEvent>>();
  return with_client(options.common, alarms_to(queue, options.common),
                     [&](Client& client, const Settings& settings) {
                       return watch_events(client, queue, options, settings, signals);
                     });
}

int break_command(const BreakOptions& options) {
  const auto token = Token::parse(options.token);
  if (!token) {
    return usage_error("break",
                       Error(Errc::kInvalidArgument, in_quotes(options.token) + " is not a token"));
  }
  return with_client(options.common, [&](Client& client, const Settings& settings) {
    const auto broken = client.break_lock(options.name, *token, options.reason);
    if (!broken && broken.error().code() == Errc::kLost) {
      complain("no holder of " + in_quotes(options.name) + " has the token " + token->to_string() +
               ": nothing was changed ('holdfast inspect' tells"
               " who holds it)");
      return kExitLost;
    }
    if (!broken) return fail(broken.error(), settings.shown_store);
    const bool shared = url_option(settings.store.url, "recipe").has_value();
    return answer(options.common,
                  {{"name", options.name}, {"token", token->to_string()}, {"broken", true}},
                  "broke " + printable(options.name) + ", token " + token->to_string() +
                      ". Its holder learns it at its next renewal: it may go on until then" +
                      (shared ? "; another program than Holdfast perhaps never: end that by hand.\n"
                              : ".\n"));
  });
}

}  // namespace holdfast::cli
