#include "src/cli/options.h"

#include <algorithm>
#include <charconv>

#include "src/cli/option_table.h"
#include "src/cli/text.h"

namespace holdfast::cli {
namespace {

Error invalid(std::string message) { return {Errc::kInvalidArgument, std::move(message)}; }

void add_common(OptionTable& table, CommonOptions& common) {
  table.text("--store", common.store);
  table.text("--config", common.config);
  table.flag("--json", common.json);
  table.flag("-v,--verbose", common.verbose);
  table.flag("-q,--quiet", common.quiet);
}

// The options of a lock need a second look, when all of them are known.
struct LockDraft {
  bool no_wait = false;
  bool shared = false;
  std::optional<std::string> permits;
  std::optional<std::string> reason;
};

void add_lock(OptionTable& table, LockOptions& lock, LockDraft& draft) {
  table.positional("NAME", lock.name);
  table.duration("--wait", lock.wait);
  table.flag("--no-wait", draft.no_wait);
  table.duration("--ttl", lock.ttl);
  table.duration("--max-hold", lock.max_hold);
  table.flag("--shared", draft.shared);
  table.text("--permits", draft.permits);
  table.text("--reason", draft.reason);
}

Result<void> finish_lock(LockOptions& lock, const LockDraft& draft) {
  if (lock.name.empty()) return invalid("the name of the lock is empty");
  if (draft.no_wait && lock.wait) return invalid("--wait and --no-wait contradict each other");
  if (draft.no_wait) lock.wait = Duration::zero();
  if (lock.ttl && *lock.ttl <= Duration::zero()) return invalid("--ttl must be longer than zero");
  if (lock.max_hold && *lock.max_hold <= Duration::zero()) {
    return invalid("--max-hold must be longer than zero");
  }
  lock.reason = draft.reason.value_or("");
  auto mode = parse_mode(draft.shared, draft.permits);
  if (!mode) return mode.error();
  lock.mode = *mode;
  return {};
}

// "fenced,fair" to its parts.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

std::optional<OnLost> parse_on_lost(std::string_view word) {
  if (word == "term") return OnLost::kTerm;
  if (word == "kill") return OnLost::kKill;
  if (word == "ignore") return OnLost::kIgnore;
  return std::nullopt;
}

Result<Mode> parse_mode(bool shared, const std::optional<std::string>& permits) {
  if (shared && permits) return invalid("--shared and --permits contradict each other");
  if (shared) return Mode::shared();
  if (!permits) return Mode::exclusive();
  const auto number = [](std::string_view text) -> std::uint32_t {
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() ? value : 0;
  };
  const std::size_t slash = permits->find('/');
  const std::string_view text = *permits;
  const std::uint32_t n = slash == text.npos ? 0 : number(text.substr(0, slash));
  const std::uint32_t capacity = slash == text.npos ? 0 : number(text.substr(slash + 1));
  if (n == 0 || capacity == 0 || n > capacity) {
    return invalid("--permits: " + in_quotes(text) +
                   " is not n/N: write --permits 1/3 for one of three permits");
  }
  return Mode::permits(n, capacity);
}

Result<void> parse_run(const Arguments& arguments, RunOptions& into) {
  // CLI11 has its own idea of "[a]" and "--" inside a list, so the command never passes it.
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  OptionTable table("run");
  LockDraft draft;
  std::optional<std::string> on_lost;
  std::optional<std::string> leftover;
  add_common(table, into.common);
  add_lock(table, into.lock, draft);
  table.duration("--min-hold", into.min_hold);
  table.duration("--kill-after", into.kill_after);
  table.choice("--on-lost", on_lost, {"term", "kill", "ignore"});
  table.choice("--leftover", leftover, {"end", "wait"});
  table.number("--json-fd", into.json_fd, 0, 65'535);
  table.number("--exit-lost", into.exit_lost, 1, 255);
  table.number("--exit-timeout", into.exit_timeout, 1, 255);
  table.number("--exit-error", into.exit_error, 1, 255);
  auto parsed = table.parse({arguments.begin(), dashes});
  into.common.help = table.help();
  if (!parsed || table.help()) return parsed;
  if (dashes != arguments.end()) into.command.assign(dashes + 1, arguments.end());
  if (into.command.empty()) {
    return invalid(
        "there is no command to run: holdfast run NAME -- COMMAND [ARG...]"
        " (see 'holdfast help run')");
  }
  if (on_lost) into.on_lost = parse_on_lost(*on_lost);
  if (leftover == "wait") into.leftover = Leftover::kWait;
  return finish_lock(into.lock, draft);
}

Result<void> parse_hold(const std::string& command, const Arguments& arguments, HoldOptions& into) {
  OptionTable table(command);
  LockDraft draft;
  add_common(table, into.common);
  add_lock(table, into.lock, draft);
  auto parsed = table.parse(arguments);
  into.common.help = table.help();
  if (!parsed || table.help()) return parsed;
  return finish_lock(into.lock, draft);
}

Result<void> parse_lease(const std::string& command, const Arguments& arguments,
                         LeaseOptions& into) {
  OptionTable table(command);
  add_common(table, into.common);
  table.positional("LEASE", into.lease);
  if (command == "renew") table.duration("--ttl", into.ttl);
  auto parsed = table.parse(arguments);
  into.common.help = table.help();
  return parsed;
}

Result<void> parse_look(const std::string& command, const Arguments& arguments, LookOptions& into) {
  OptionTable table(command);
  add_common(table, into.common);
  table.positional(command == "inspect" ? "NAME" : "PREFIX", into.name, command == "inspect");
  if (command == "watch") table.number("--count", into.count, 1, 1'000'000'000);
  auto parsed = table.parse(arguments);
  into.common.help = table.help();
  return parsed;
}

Result<void> parse_break(const Arguments& arguments, BreakOptions& into) {
  OptionTable table("break");
  std::optional<std::string> token;
  std::optional<std::string> reason;
  add_common(table, into.common);
  table.positional("NAME", into.name);
  table.text("--token", token);
  table.text("--reason", reason);
  auto parsed = table.parse(arguments);
  into.common.help = table.help();
  if (!parsed || table.help()) return parsed;
  if (!token) {
    return invalid(
        "--token is missing: name the grant to break, so that its successor is never"
        " broken by accident ('holdfast inspect NAME' shows it)");
  }
  into.token = *token;
  into.reason = reason.value_or("");
  return {};
}

Result<void> parse_doctor(const Arguments& arguments, DoctorOptions& into) {
  OptionTable table("doctor");
  std::optional<std::string> require;
  add_common(table, into.common);
  table.text("--require", require);
  auto parsed = table.parse(arguments);
  into.common.help = table.help();
  if (require) into.require = split(*require);
  return parsed;
}

Result<void> parse_bench(const Arguments& arguments, BenchOptions& into) {
  OptionTable table("bench");
  std::optional<int> in_flight;
  std::optional<int> names;
  std::optional<Duration> duration;
  add_common(table, into.common);
  table.number("--in-flight", in_flight, 1, 1'024);
  table.number("--names", names, 1, 1'000'000);
  table.duration("--duration", duration);
  table.duration("--ttl", into.ttl);
  auto parsed = table.parse(arguments);
  into.common.help = table.help();
  into.in_flight = in_flight.value_or(1);
  into.names = names.value_or(into.in_flight);
  into.duration = duration.value_or(into.duration);
  if (parsed && into.duration <= Duration::zero()) {
    return invalid("--duration must be longer than zero");
  }
  return parsed;
}

}  // namespace holdfast::cli
