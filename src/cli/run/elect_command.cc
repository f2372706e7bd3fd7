// `holdfast elect`: to lead while a command runs, or to see who leads.

#include "src/cli/commands.h"
#include "src/cli/help.h"
#include "src/cli/look/follow.h"
#include "src/cli/options/settings.h"
#include "src/cli/run/run.h"
#include "src/cli/text/json.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

std::string change_text(const std::string& name, const LeaderChange& change) {
  std::string out = local_time(std::chrono::system_clock::now()) + "  " + printable(name) + ": ";
  if (change.now) {
    out += printable(change.now->leader) + " leads, token " + change.now->token.to_string();
    if (!change.now->value.empty()) out += ": " + printable(change.now->value);
  } else {
    out += "nobody leads";
  }
  if (change.missed > 0)
    out += " (" + std::to_string(change.missed) + " changes before were missed)";
  return out + "\n";
}

Json change_json(const std::string& name, const LeaderChange& change) {
  Json out;
  out["event"] = change.now ? "leads" : "nobody";
  out["time"] = utc_text(std::chrono::system_clock::now());
  out["name"] = name;
  out["token"] = nullptr;
  out["owner"] = nullptr;
  out["value"] = nullptr;
  if (change.now) {
    out["token"] = change.now->token.to_string();
    out["owner"] = change.now->leader;
    out["value"] = change.now->value;
  }
  out["missed"] = change.missed;
  return out;
}

int observe(const ElectOptions& options) {
  const std::string& name = options.run.lock.name;
  const Signals signals;
  const auto queue = std::make_shared<EventQueue<LeaderChange>>();
  const Alarms alarms = alarms_to(queue, options.run.common);
  return with_client(options.run.common, alarms, [&](Client& client, const Settings& settings) {
    const auto watch =
        client.election(name).observe([queue](const LeaderChange& change) { queue->push(change); });
    if (!watch) return fail(watch.error(), settings.shown_store);
    return follow(*queue, signals, options.count, [&](const LeaderChange& change) {
      return options.run.common.json ? to_line(change_json(name, change))
                                     : change_text(name, change);
    });
  });
}

}  // namespace

int elect_command(const std::vector<std::string>& arguments) {
  ElectOptions options;
  const auto parsed = parse_elect(arguments, options);
  const int error_code = options.run.exit_error.value_or(kExitError);
  if (options.run.common.help) return print_help("elect");
  if (!parsed) return usage_error("elect", parsed.error()), error_code;
  if (options.observe) return observe(options);
  return run_under_lock("elect", std::move(options.run), {std::move(options.value), options.again});
}

}  // namespace holdfast::cli
