#include "src/cli/options/options.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <functional>

#include "src/cli/options/option_table.h"
#include "src/cli/options/values.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

std::string option_of(const ServeText& text) {
  std::string name = std::string("--") + text.key;
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::function<Result<int>(const std::string&)> between(int least, int most) {
  return [least, most](const std::string& text) { return read_number(text, least, most); };
}

// The options of every command that prints.
void add_output(OptionTable& table, CommonOptions& common) {
  table.flag("-h,--help", common.help);
  table.flag("--json", common.json);
  table.flag("-q,--quiet", common.quiet);
}

// A server has these, too, and no --store: it is one itself.
void add_messages(OptionTable& table, CommonOptions& common) {
  add_output(table, common);
  table.value("--config", common.config, read_text, "file");
  table.value("--log-format", common.log_format, read_log_format, "text|json|logfmt");
}

void add_common(OptionTable& table, CommonOptions& common) {
  table.value("--store", common.store, read_text, "store");
  table.flag("-v,--verbose", common.verbose);
  add_messages(table, common);
}

// The options of a lock need a second look, when all of them are known.
struct LockDraft {
  bool no_wait = false;
  bool shared = false;
  bool exclusive = false;
  std::optional<Mode> permits;
  std::optional<std::string> trace_id;
};

// The options of every request for a lock, except its mode.
void add_request(OptionTable& table, LockOptions& lock, LockDraft& draft) {
  table.positional("NAME", lock.name, /*required=*/true, "lock");
  // The letters are flock's.
  table.value("-w,--wait", lock.wait, read_duration);
  table.flag("-n,--no-wait", draft.no_wait);
  table.exclusive({"--wait", "--no-wait"});
  table.value("--ttl", lock.ttl, read_period);
  table.value("--max-hold", lock.max_hold, read_period);
  table.value("--lock-delay", lock.lock_delay, read_duration);
  table.value("--reason", lock.reason, read_text);
  table.value("--trace-id", draft.trace_id, read_trace_id);
}

void add_lock(OptionTable& table, LockOptions& lock, LockDraft& draft) {
  add_request(table, lock, draft);
  table.flag("-s,--shared", draft.shared);
  table.flag("-x,-e,--exclusive", draft.exclusive);
  table.value("--permits", draft.permits, read_permits);
  table.exclusive({"--shared", "--exclusive", "--permits"});
}

// An empty trace id is none, even as an option. An unusable one in the environment was set for
// other programs, so it stops no job.
void take_trace_id(LockOptions& lock, const LockDraft& draft) {
  const char* const inherited = std::getenv("HOLDFAST_TRACE_ID");
  if (draft.trace_id) {
    lock.trace_id = *draft.trace_id;
  } else if (inherited != nullptr) {
    if (auto trace = read_trace_id(inherited)) {
      lock.trace_id = *std::move(trace);
    } else {
      lock.ignored = "HOLDFAST_TRACE_ID is ignored: a trace id " + trace.error().message();
    }
  }
}

Result<void> finish_lock(LockOptions& lock, const LockDraft& draft) {
  if (lock.name.empty()) return invalid("the name of the lock is empty");
  if (draft.no_wait) lock.wait = Duration::zero();
  take_trace_id(lock, draft);
  if (draft.shared) lock.mode = Mode::shared();
  if (draft.permits) lock.mode = *draft.permits;
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

// --exit-error counts even for the error that the other options cannot be read.
std::optional<int> exit_error_among(const Arguments& arguments) {
  const std::string name = "--exit-error";
  std::optional<int> found;
  for (auto at = arguments.begin(); at != arguments.end(); ++at) {
    std::string text;
    if (at->compare(0, name.size() + 1, name + "=") == 0) text = at->substr(name.size() + 1);
    if (*at == name && at + 1 != arguments.end()) text = *(at + 1);
    if (const auto code = read_exit_code(text)) found = *code;
  }
  return found;
}

// The options of a command that runs another one under a lock.
void add_run(OptionTable& table, RunOptions& into) {
  add_common(table, into.common);
  table.value("--min-hold", into.min_hold, read_duration);
  table.value("--kill-after", into.kill_after, read_duration);
  table.value("--on-lost", into.on_lost, read_on_lost, "term|kill|ignore");
  table.value("--leftover", into.leftover, read_leftover, "end|wait|leave");
  table.value("--contain", into.contain, read_contain, "tree|pidns|cgroup");
  table.value("--json-fd", into.json_fd, between(0, 65'535));
  table.value("--exit-max-hold", into.exit_max_hold, read_exit_code);
  table.value("--exit-lost", into.exit_lost, read_exit_code);
  table.value("-E,--exit-timeout", into.exit_timeout, read_exit_timeout);
  table.value("--exit-error", into.exit_error, read_exit_code);
}

// `dashes`: where the command begins. CLI11 has its own idea of "[a]" and "--" inside a list, so
// the command never passes it.
Result<void> parse_split(const Arguments& arguments, Arguments::const_iterator dashes,
                         RunOptions& into) {
  Arguments own(arguments.begin(), dashes);
  into.exit_error = exit_error_among(own);
  if (dashes != arguments.end()) into.command.assign(dashes + 1, arguments.end());
  OptionTable table("run");
  LockDraft draft;
  add_lock(table, into.lock, draft);
  add_run(table, into);
  table.flag("--reenter", into.reenter);
  table.value("--metrics-textfile", into.metrics_textfile, read_text, "file");
  auto parsed = table.parse(std::move(own));
  if (!parsed || into.common.help) return parsed;
  if (into.command.empty()) {
    return invalid(
        "there is no command to run: holdfast run NAME -- COMMAND [ARG...]"
        " (see 'holdfast help run')");
  }
  return finish_lock(into.lock, draft);
}

Result<void> check_elect(const ElectOptions& options) {
  const bool runs = !options.run.command.empty();
  if (options.observe && runs) {
    return invalid("--observe only looks: it runs no command");
  }
  if (options.count && !options.observe) return invalid("--count needs --observe");
  if (!options.observe && !runs) {
    return invalid(
        "there is no command to run: holdfast elect NAME -- COMMAND [ARG...], or holdfast elect"
        " NAME --observe (see 'holdfast help elect')");
  }
  return {};
}

// Works as parse_split() does.
Result<void> parse_elect_split(const Arguments& arguments, Arguments::const_iterator dashes,
                               ElectOptions& into) {
  Arguments own(arguments.begin(), dashes);
  into.run.exit_error = exit_error_among(own);
  if (dashes != arguments.end()) into.run.command.assign(dashes + 1, arguments.end());
  OptionTable table("elect");
  LockDraft draft;
  add_request(table, into.run.lock, draft);
  add_run(table, into.run);
  table.value("--value", into.value, read_text);
  table.flag("--again", into.again);
  table.flag("--observe", into.observe);
  table.value("--count", into.count, between(1, 1'000'000'000));
  auto parsed = table.parse(std::move(own));
  if (!parsed || into.run.common.help) return parsed;
  if (auto good = check_elect(into); !good) return good;
  return finish_lock(into.run.lock, draft);
}

// The servers are a word or --store's.
Result<void> take_servers(ServerToolOptions& into) {
  if (!into.to.empty()) return invalid("name the servers in one URL: holdfast://HOST,HOST");
  if (into.from.empty()) return {};
  if (into.common.store) return invalid("name the servers once, as a word or with --store");
  into.common.store = into.from;
  return {};
}

}  // namespace

Result<void> parse_run(const Arguments& arguments, RunOptions& into) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  auto parsed = parse_split(arguments, dashes, into);
  // `-- NAME -- COMMAND`: where no name stands before the dashes it stands behind them.
  const bool dashed = arguments.end() - dashes > 2 && dashes[2] == "--";
  if (parsed || into.common.help || !into.lock.name.empty() || !dashed) return parsed;
  into = {};
  return parse_split(arguments, dashes + 2, into);
}

Result<void> parse_elect(const Arguments& arguments, ElectOptions& into) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  auto parsed = parse_elect_split(arguments, dashes, into);
  if (parsed || into.run.common.help || !into.run.lock.name.empty()) return parsed;
  // As in parse_run(). To observe, no dashes follow the name.
  const auto behind = arguments.end() - dashes;
  const bool dashed = behind > 2 && dashes[2] == "--";
  if (!dashed && !(into.observe && behind == 2)) return parsed;
  into = {};
  return parse_elect_split(arguments, dashed ? dashes + 2 : arguments.end(), into);
}

Result<void> parse_hold(const std::string& command, const Arguments& arguments, HoldOptions& into) {
  OptionTable table(command);
  LockDraft draft;
  add_common(table, into.common);
  add_lock(table, into.lock, draft);
  auto parsed = table.parse(arguments);
  if (!parsed || into.common.help) return parsed;
  if (command == "acquire" && into.lock.max_hold) {
    return invalid(
        "acquire cannot end what runs under the lock, so --max-hold means nothing to it: the lock"
        " lasts for --ttl unless it is renewed. 'holdfast run' and 'holdfast hold' know "
        "--max-hold");
  }
  if (command == "acquire" && into.lock.lock_delay) {
    return invalid(
        "nobody ends what runs under a lock of acquire, so --lock-delay means nothing to it: make "
        "--ttl longer. 'holdfast run' and 'holdfast hold' know --lock-delay");
  }
  return finish_lock(into.lock, draft);
}

Result<void> parse_lease(const std::string& command, const Arguments& arguments,
                         LeaseOptions& into) {
  OptionTable table(command);
  add_common(table, into.common);
  table.positional("LEASE", into.lease);
  if (command == "renew") table.value("--ttl", into.ttl, read_period);
  return table.parse(arguments);
}

Result<void> parse_look(const std::string& command, const Arguments& arguments, LookOptions& into) {
  OptionTable table(command);
  add_common(table, into.common);
  const bool one = command == "inspect" || command == "status";
  table.positional(one ? "NAME" : "PREFIX", into.name, one, "lock");
  if (command == "watch") table.value("--count", into.count, between(1, 1'000'000'000));
  if (command == "ls") table.flag("--outcomes", into.outcomes);
  return table.parse(arguments);
}

Result<void> parse_top(const Arguments& arguments, TopOptions& into) {
  OptionTable table("top");
  add_common(table, into.common);
  table.positional("PREFIX", into.prefix, /*required=*/false, "lock");
  table.value("--interval", into.interval, read_interval);
  table.value("--sort", into.sort, read_top_sort, "name|queue|age|left");
  table.flag("--once", into.once);
  table.flag("--plain", into.plain);
  return table.parse(arguments);
}

Result<void> parse_break(const Arguments& arguments, BreakOptions& into) {
  OptionTable table("break");
  std::optional<std::string> token;
  add_common(table, into.common);
  table.positional("NAME", into.name, /*required=*/true, "lock");
  table.value("--token", token, read_text, "token");
  table.value("--reason", into.reason, read_text);
  auto parsed = table.parse(arguments);
  if (!parsed || into.common.help) return parsed;
  if (!token) {
    return invalid(
        "--token is missing: name the grant to break, so that its successor is never"
        " broken by accident ('holdfast inspect NAME' shows it)");
  }
  into.token = *token;
  return {};
}

Result<void> parse_doctor(const Arguments& arguments, DoctorOptions& into) {
  OptionTable table("doctor");
  std::optional<std::string> require;
  std::string url;
  add_common(table, into.common);
  table.positional("URL", url, /*required=*/false);
  table.value("--require", require, read_text,
              "fenced|fair|shared|permits|upgrade|list|watch-every-change|values|multi|"
              "survives-restart|survives-failover");
  auto parsed = table.parse(arguments);
  if (require) into.require = split(*require);
  if (parsed && require && into.require.empty()) {
    return invalid("--require names no guarantee (see 'holdfast help doctor')");
  }
  if (!parsed || url.empty()) return parsed;
  if (into.common.store) return invalid("name the store once, as a word or with --store");
  into.common.store = url;
  return parsed;
}

Result<void> parse_store(const Arguments& arguments, StoreOptions& into) {
  OptionTable table("store");
  std::string verb;
  add_common(table, into.common);
  table.positional("VERB", verb, /*required=*/false, "init");
  table.flag("--print-sql", into.print_sql);
  auto parsed = table.parse(arguments);
  if (into.common.help) return {};
  if (verb.empty()) return parsed ? invalid("say what to do: holdfast store init") : parsed;
  if (verb != "init") {
    return invalid("there is no " + in_quotes(verb) +
                   ", only: holdfast store init (for stores see 'holdfast help stores')");
  }
  if (parsed && into.print_sql && into.common.json) {
    return invalid("--print-sql and --json contradict each other: SQL is no JSON");
  }
  return parsed;
}

Result<void> parse_failover(const Arguments& arguments, FailoverOptions& into) {
  OptionTable table("failover");
  std::string place;
  add_common(table, into.common);
  table.positional("VERB", into.verb, /*required=*/false, "status|switch|return");
  table.positional("PLACE", place, /*required=*/false);
  auto parsed = table.parse(arguments);
  if (into.common.help) return {};
  if (!parsed) return parsed;
  if (into.verb != "status" && into.verb != "switch" && into.verb != "return") {
    return invalid("say what to do: holdfast failover status, switch or return");
  }
  if (into.verb == "return") into.place = 1;
  if (place.empty()) return {};
  if (into.verb != "switch") return invalid("only 'holdfast failover switch' has a PLACE");
  if (place.size() != 1 || place[0] < '1' || place[0] > '9') {
    return invalid("PLACE " + in_quotes(place) + " is not the number of a store, from 1");
  }
  into.place = static_cast<std::uint32_t>(place[0] - '0');
  return {};
}

std::string_view path_of(std::string_view place) {
  const auto is_letter = [](unsigned char c) { return std::isalnum(c) != 0; };
  const std::size_t scheme = static_cast<std::size_t>(
      std::find_if_not(place.begin(), place.end(), is_letter) - place.begin());
  return scheme < place.size() && place[scheme] == ':' ? place.substr(scheme + 1) : place;
}

Result<void> check_serve(const ServeOptions& options) {
  // An empty variable of a script must not open the server to everybody.
  for (const auto& [option, file] : {std::pair{"users", options.users},
                                     {"tls-cert", options.tls_cert},
                                     {"tls-key", options.tls_key},
                                     {"tls-ca", options.tls_ca}}) {
    if (file && file->empty()) return invalid("--" + std::string(option) + " names no file");
  }
  for (const auto& [option, address] : {std::pair{"listen", options.listen},
                                        {"http", options.http},
                                        {"http-host", options.http_hosts},
                                        {"advertise", options.advertise}}) {
    if (address && address->empty()) return invalid("--" + std::string(option) + " names no host");
  }
  for (const ServeText& each : kServeTexts) {
    const auto& text = options.*each.field;
    if (!text || !path_of(*text).starts_with('~')) continue;
    return invalid(option_of(each) + " '" + printable(*text) +
                   "': the shell has not replaced '~': write the whole path, or './~' for a name "
                   "that begins so");
  }
  if (options.data && options.journal) {
    return invalid("--data and --journal contradict each other");
  }
  if (options.plaintext && options.tls_cert) {
    return invalid("--plaintext and --tls-cert contradict each other: a port has TLS or not");
  }
  if (options.http_hosts && !options.http) {
    return invalid("--http-host names hosts of the HTTP port, which --http HOST:PORT opens");
  }
  return {};
}

Result<void> parse_serve(const Arguments& arguments, ServeOptions& into) {
  OptionTable table("serve");
  add_messages(table, into.common);
  for (const ServeText& each : kServeTexts) {
    table.value(option_of(each), into.*each.field, read_text, each.offers);
  }
  table.exclusive({"--data", "--journal"});
  table.value("--shards", into.shards, read_shards);
  table.value("--connection-rate", into.connection_rate, read_rate);
  table.flag("--plaintext", into.plaintext);
  table.flag("--clients-stopped", into.clients_stopped);
  auto parsed = table.parse(arguments);
  if (!parsed || into.common.help) return parsed;
  return check_serve(into);
}

bool asks_servers(const std::string& verb) {
  return verb == "status" || verb == "members" || verb == "step-down" || verb == "drain";
}

Result<void> parse_server(const Arguments& arguments, ServerToolOptions& into) {
  OptionTable table("server");
  add_common(table, into.common);
  table.value("--address", into.address, read_text);
  table.positional("VERB", into.verb, /*required=*/false,
                   "status|members|step-down|drain|verify|backup|restore|password");
  table.positional("FROM", into.from, /*required=*/false, "file");
  table.positional("TO", into.to, /*required=*/false, "file");
  auto parsed = table.parse(arguments);
  if (into.common.help) return {};
  if (!parsed) return parsed;
  if (!into.address.empty() && into.verb != "drain" && into.verb != "step-down")
    return invalid("--address is for 'server drain' and 'server step-down'");
  if (asks_servers(into.verb)) return take_servers(into);
  if (into.common.store || into.common.config) {
    return invalid("--store and --config are for status, members, step-down and drain");
  }
  if (into.verb == "password") {
    if (into.from.empty()) return {};
    return invalid("the password is read from stdin, and is not a word of the command line");
  }
  const bool copies = into.verb == "backup" || into.verb == "restore";
  if (!copies && into.verb != "verify") {
    return invalid(
        "say what to do: holdfast server status, members, step-down, drain, verify, backup, "
        "restore or password");
  }
  if (into.from.empty() || into.to.empty() == copies) {
    return invalid(into.verb == "verify"   ? "write holdfast server verify FOLDER-OR-BACKUP"
                   : into.verb == "backup" ? "write holdfast server backup FOLDER BACKUP"
                                           : "write holdfast server restore BACKUP FOLDER");
  }
  return {};
}

Result<void> parse_bench(const Arguments& arguments, BenchOptions& into) {
  OptionTable table("bench");
  std::optional<int> in_flight;
  std::optional<int> names;
  add_common(table, into.common);
  table.value("--in-flight", in_flight, between(1, 1'024));
  table.value("--threads", into.threads, between(1, 1'024));
  table.value("--names", names, between(1, 1'000'000));
  table.value("--duration", into.duration, read_period);
  table.value("--ttl", into.ttl, read_period);
  table.exclusive({"--in-flight", "--threads"});
  auto parsed = table.parse(arguments);
  into.in_flight = into.threads.value_or(in_flight.value_or(1));
  into.names = names.value_or(into.in_flight);
  return parsed;
}

// Refuses options of ids in a store for others.
Result<void> check_id_store(const IdOptions& options) {
  const bool elsewhere = options.file || options.uuid || options.ulid;
  if (elsewhere && options.common.store) {
    return invalid("--store is for ids whose records are there, so without --file, --uuid, --ulid");
  }
  if (options.common.store && options.verb == "decode") {
    return invalid("--store is not for 'id decode': give the layout that 'id init' printed");
  }
  if (options.file && options.verb != "decode" && !options.what.empty()) {
    return invalid("NAME is for ids in a store, and --file for those of a file: give one of them");
  }
  const bool of_store = options.segments || options.counter || options.durable || options.floor ||
                        options.verb == "status" || options.verb == "floor";
  if (of_store && (elsewhere || options.verb == "decode")) {
    return invalid(
        "--segments, --counter, --require, --floor, 'id status' and 'id floor' are for ids in a "
        "store, so without --file, --uuid, --ulid, and not for 'id decode'");
  }
  if (options.segments && options.verb != "init") {
    return invalid("--segments is for 'id init': what a name gives is for good");
  }
  if (options.counter && ((options.verb != "init" && options.verb != "next") || options.segments)) {
    return invalid("--counter is for 'id init' and 'id next', without --segments");
  }
  if ((options.segments || options.counter) &&
      (options.layout || options.policy || options.workers)) {
    return invalid("segments and counters are plain numbers: no --layout, --policy or --workers");
  }
  if ((options.verb == "floor") != (options.floor && !options.reason.empty())) {
    return invalid("'id floor NAME' needs --floor N and --reason TEXT, and nothing else does");
  }
  return {};
}

Result<void> parse_id(const Arguments& arguments, IdOptions& into) {
  OptionTable table("id");
  add_common(table, into.common);
  table.positional("VERB", into.verb, /*required=*/false, "init|next|decode|workers|status|floor");
  table.positional("NAME", into.what, /*required=*/false);
  table.value("--file", into.file, read_text, "file");
  table.value("--layout", into.layout, read_text,
              "twitter|twitter-machine-first|leaf|uidgenerator|sonyflake|javascript");
  table.value("--policy", into.policy, read_text,
              "logical|refuse|wait:5ms|step:1024|extension:2:5ms");
  table.value("--workers", into.workers, read_text);
  table.value("--count", into.count, between(1, 1'000'000));
  table.flag("--uuid", into.uuid);
  table.flag("--ulid", into.ulid);
  table.flag("--segments", into.segments);
  table.flag("--counter", into.counter);
  table.value(
      "--require", into.durable,
      [](const std::string& text) -> Result<bool> {
        if (text == "durable") return true;
        return invalid("ids know 'durable' only, not " + in_quotes(text));
      },
      "durable");
  table.value("--floor", into.floor, read_text);
  table.value("--reason", into.reason, read_text);
  auto parsed = table.parse(arguments);
  if (!parsed || into.common.help) return parsed;
  const std::string& verb = into.verb;
  constexpr std::string_view kVerbs[] = {"init", "next", "decode", "workers", "status", "floor"};
  if (std::find(std::begin(kVerbs), std::end(kVerbs), verb) == std::end(kVerbs)) {
    return invalid("say what to do: holdfast id init, next, decode, workers, status or floor");
  }
  if (auto good = check_id_store(into); !good) return good;
  const bool random = into.uuid || into.ulid;
  if (random && (verb != "next" || into.uuid == into.ulid || !into.what.empty() || into.file ||
                 into.layout)) {
    return invalid(
        "--uuid and --ulid are for 'holdfast id next' without NAME and --layout, one of them");
  }
  const bool named = !into.what.empty() || (into.file && verb != "decode");
  if (!random && !named) {
    return invalid(verb == "decode" ? "ID is missing" : "NAME is missing");
  }
  if (verb == "decode" && (into.layout || into.policy) && into.file) {
    return invalid("--file has a layout and a policy: it goes without --layout and --policy");
  }
  if (into.layout && verb != "init" && verb != "next" && verb != "decode") {
    return invalid("--layout is for 'id init', 'id next' and 'id decode'");
  }
  if (into.policy && verb != "init" && verb != "decode") {
    return invalid("--policy is for 'id init' and 'id decode': a name's policy is for good");
  }
  if (into.workers && verb != "init") {
    return invalid("--workers is for 'id init': a name's worker numbers are for good");
  }
  return parsed;
}

Result<void> parse_fence(const Arguments& arguments, FenceOptions& into) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  OptionTable table("fence");
  std::string verb;
  add_output(table, into.common);
  table.positional("VERB", verb, /*required=*/false, "check");
  table.positional("RESOURCE", into.resource, /*required=*/false);
  table.value("--token", into.token, read_text);
  table.value("--mode", into.mode, read_mode, "exclusive|shared");
  table.value("--file", into.file, read_text, "file");
  table.value("--state", into.state, read_text, "folder");
  table.value("--wait", into.wait, read_duration);
  table.value("--store", into.common.store, read_text, "store");
  table.exclusive({"--file", "--state", "--store"});
  auto parsed = table.parse(Arguments(arguments.begin(), dashes));
  if (into.common.help || (!parsed && verb.empty())) return parsed;
  if (verb != "check") {
    return invalid(verb.empty() ? "say what to do: holdfast fence check RESOURCE"
                                : "there is no " + in_quotes(verb) +
                                      ", only: holdfast fence check RESOURCE");
  }
  if (!parsed) return parsed;
  Arguments rest(dashes == arguments.end() ? dashes : dashes + 1, arguments.end());
  // A name that begins with '-' stands behind dashes, here as everywhere.
  if (into.resource.empty() && !rest.empty()) {
    into.resource = rest.front();
    rest.erase(rest.begin());
    if (!rest.empty() && rest.front() != "--") {
      return invalid("what is " + in_quotes(rest.front()) +
                     "? A command stands behind dashes of its own");
    }
    if (!rest.empty()) rest.erase(rest.begin());
  }
  if (into.resource.empty()) return invalid("RESOURCE is missing");
  into.command = std::move(rest);
  if (into.common.store && (into.mode || into.wait)) {
    return invalid("--store asks the store, so --mode and --wait are not for it");
  }
  if (into.common.store && !into.command.empty()) {
    return invalid(
        "--store takes no command: the lock may be lost between the answer and the command. "
        "Without --store, check and command are one step");
  }
  if (into.common.json && !into.command.empty()) {
    return invalid("--json would be mixed with what the command prints");
  }
  return {};
}

}  // namespace holdfast::cli
