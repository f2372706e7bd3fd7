#include "src/stores/postgres/recipes.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <utility>
#include <vector>

#include "src/recipes/held_backend.h"
#include "src/recipes/recipe_store.h"
#include "src/stores/postgres/connection.h"
#include "src/stores/postgres/dialect.h"

namespace holdfast::stores::postgres {
namespace {

constexpr char kPage[] = "docs/stores/postgres.md";

Error bad(std::string what) { return {Errc::kInvalidArgument, "postgres URL: " + std::move(what)}; }

// The key's expression, of the parameter $1.
std::string key_of(const RecipeOptions& options) {
  if (options.key_function == "hashtext") return "hashtext($1)::bigint";
  return options.key_function.empty() ? "$1::bigint" : "hashtextextended($1, 0)";
}

Result<std::string> number_of(const std::string& name) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error == std::errc() && end == name.data() + name.size()) return std::to_string(number);
  return Error(Errc::kInvalidArgument,
               "postgres: with key=number a name is a 64-bit decimal number, like 42");
}

sql::Request open_request(const RecipeOptions& options) {
  const std::string length = std::to_string(options.session.count());
  const std::string pid = "SELECT pg_is_in_recovery()::int, pg_backend_pid()";
  // A pooler gives no session: a transaction sets its own timeout.
  if (options.own_transaction) return {pid, {}};
  return {pid +
              ", set_config('idle_session_timeout', $1, false)"
              ", set_config('tcp_user_timeout', $1, false)"
              ", set_config('statement_timeout', '0', false)",
          {length}};
}

sql::Request take_request(const RecipeOptions& options, const std::string& key) {
  const char* const function =
      options.own_transaction ? "pg_try_advisory_xact_lock" : "pg_try_advisory_lock";
  const std::string text = "WITH k AS MATERIALIZED (SELECT " + key_of(options) +
                           " AS key) SELECT " + function +
                           "(key)::int, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
                           ", key";
  if (!options.own_transaction) return {text + " FROM k", {key}};
  return {text +
              ", set_config('idle_in_transaction_session_timeout', $2, true)"
              ", set_config('statement_timeout', '0', true) FROM k",
          {key, std::to_string(options.session.count())}};
}

constexpr char kInspect[] = R"sql( AS key)
SELECT l.granted::int, l.mode = 'ShareLock', l.pid, coalesce(host(a.client_addr), ''),
  coalesce(a.application_name, ''), coalesce(a.usename, '')
FROM k JOIN pg_locks l ON l.locktype = 'advisory' AND l.objsubid = 1
  AND l.classid::bigint = ((k.key >> 32) & 4294967295) AND l.objid::bigint = (k.key & 4294967295)
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
LEFT JOIN pg_stat_activity a ON a.pid = l.pid ORDER BY l.granted DESC, l.pid)sql";

std::optional<LockInfo> describe(const std::string& name, const sql::Rows& rows) {
  if (rows.size() == 0) return std::nullopt;
  LockInfo info;
  info.name = name;
  for (int row = 0; row < rows.size(); ++row) {
    OwnerInfo who;
    who.owner = rows.text(row, 5);
    who.host = rows.text(row, 3);
    who.pid = rows.number(row, 2);
    who.program = rows.text(row, 4);
    who.reason = "a session of the server: its number is the pid";
    const Mode mode = rows.text(row, 1) == "t" ? Mode::shared() : Mode::exclusive();
    if (rows.number(row, 0) == 1) {
      info.holders.push_back({.who = who, .mode = mode, .token = {}});
    } else {
      info.waiters.push_back({.who = who, .mode = mode});
    }
  }
  return info;
}

port::Findings judge(const RecipeOptions& options, const sql::Rows& rows) {
  port::Findings findings;
  port::add(findings, Severity::kOk, "version", "PostgreSQL " + std::string(rows.text(0, 0)));
  port::add(findings, Severity::kOk, "session",
            "the server ends this client's silent " +
                std::string(options.own_transaction ? "transactions" : "session") + " after " +
                std::to_string(options.session.count()) + " ms, and the locks with it");
  port::add(findings, Severity::kWarning, "recipe",
            "advisory locks have no fencing tokens and no order: a server that ends the session "
            "frees the lock before its holder is told",
            "use the store without recipe= once every program does: " + std::string(kPage));
  return findings;
}

Result<void> check_server(const std::string& place, const sql::Rows& rows, int told_pid,
                          bool needs_session) {
  if (rows.number(0, 0) != 0) {
    return Error(Errc::kUnavailable,
                 place +
                     ": a standby has advisory locks of its own: connect to the primary, or name "
                     "all servers in the URL");
  }
  if (!needs_session || rows.number(0, 1) == told_pid) return {};
  return Error(Errc::kUnsupported,
               place +
                   ": this is a connection pooler, which may give the session and its advisory "
                   "locks to somebody else: name the server itself, or use recipe=advisory-xact");
}

}  // namespace

Result<RecipeOptions> take_recipe_options(port::StoreUrl& url) {
  const bool schema = std::any_of(url.options.begin(), url.options.end(),
                                  [](const auto& option) { return option.first == "schema"; });
  const auto given = port::UrlOptions::take(url, "postgres", kRecipeOptions);
  if (!given) return given.error();
  RecipeOptions options;
  options.wanted = given->has("recipe");
  for (const char* const name : {"session", "key", "connections"}) {
    if (given->has(name) && !options.wanted) return bad(std::string(name) + " needs recipe=");
  }
  if (options.wanted && schema) return bad("schema is of no use with recipe=: it has no tables");
  options.own_transaction = given->text("recipe") == "advisory-xact";
  options.session = given->time("session");
  if (given->has("key")) options.key_function = given->text("key");
  if (options.key_function == "number") options.key_function.clear();
  options.connections = given->number("connections");
  if (given->has("connections") && !options.own_transaction) {
    return bad("connections needs recipe=advisory-xact: other locks share one connection");
  }
  if (options.connections == 0) return bad("connections is at least 1");
  return options;
}

Guarantees recipe_guarantees(const RecipeOptions& options) {
  Guarantees result = recipes::guarantees(
      "postgres", "all programs that lock the same keys of one database", options.session);
  result.survives_restart = result.survives_failover = false;
  result.faults = {
      {"holder is killed", Guarantee::kYes, Guarantee::kNo,
       "its connection ends, and the lock with it"},
      {"holder is paused, or client and server are parted", Guarantee::kYes, Guarantee::kNo,
       "the server ends a silent session after its length; the holder's deadline passes first"},
      {"server ends the session: restart, terminated backend, connection reset",
       Guarantee::kDeclared, Guarantee::kNo,
       "the lock is free at once; the holder is told when the end of the connection arrives"},
      {"replica is promoted", Guarantee::kDeclared, Guarantee::kNo,
       "it has none of the locks; holders lose their connection, or their deadline passes"},
      {"server's wall clock jumps", Guarantee::kDeclared, Guarantee::kNo,
       "a silent session may end early or late"},
      {"client's wall clock jumps, or its host is suspended", Guarantee::kYes, Guarantee::kNo,
       "deadlines count on boot time"},
  };
  return result;
}

Result<std::unique_ptr<port::Store>> make_recipe_store(const PostgresAddress& address,
                                                       const RecipeOptions& options,
                                                       const port::StoreContext& context) {
  recipes::HeldTerms terms;
  terms.guarantees = recipe_guarantees(options);
  terms.place = address.display();
  terms.key_of = [numbers = options.key_function.empty()](const std::string& name) {
    return numbers ? number_of(name) : Result<std::string>(name);
  };
  terms.make_line = [address, place = terms.place, own = options.own_transaction,
                     session = options.session] {
    const auto current = std::make_shared<std::atomic<PostgresConnection*>>(nullptr);
    const auto never = std::make_shared<std::atomic<bool>>(false);
    recipes::HeldTerms::Line line;
    line.link = {[address, current, never] {
                   auto made = std::make_unique<PostgresConnection>(address, never);
                   *current = made.get();
                   return made;
                 },
                 address.connect_timeout, "holdfast-pglock", /*keep=*/false, session};
    line.check = [current, place, own](const sql::Rows& rows) {
      auto good = check_server(place, rows, current->load()->process_id(), !own);
      if (good && !own) current->load()->set_own_session();
      return good;
    };
    return line;
  };
  terms.patience = address.connect_timeout;
  terms.own_transaction = options.own_transaction;
  terms.connections = options.connections;
  terms.open = open_request(options);
  terms.begin = [](const std::string&) -> sql::Request { return {"BEGIN", {}}; };
  terms.take = [options](const std::string& key) { return take_request(options, key); };
  terms.give_back = [options](const std::string& key) -> sql::Request {
    if (options.own_transaction) return {"COMMIT", {}};
    return {"SELECT pg_advisory_unlock(" + key_of(options) + ")", {key}};
  };
  terms.confirm = {"SELECT 1", {}};
  terms.inspect = [options](const std::string& key) -> sql::Request {
    return {"WITH k AS MATERIALIZED (SELECT " + key_of(options) + kInspect, {key}};
  };
  terms.describe = &describe;
  terms.examination = {"SELECT current_setting('server_version')", {}};
  terms.judge = [options](const sql::Rows& rows) { return judge(options, rows); };
  terms.is_busy = [](const sql::Answer&) { return false; };
  terms.code_of = [](const sql::Answer& answer) {
    // A server before version 14 cannot end silent sessions.
    return answer.code == "42704" ? Errc::kUnsupported : sql::code_of(failure_of(answer));
  };
  return recipes::make_store(recipes::make_held_backend(std::move(terms), *context.loop), context);
}

}  // namespace holdfast::stores::postgres
