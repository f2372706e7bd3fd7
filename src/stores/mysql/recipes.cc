#include "src/stores/mysql/recipes.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "src/recipes/held_backend.h"
#include "src/recipes/recipe_store.h"
#include "src/stores/mysql/connection.h"
#include "src/stores/mysql/dialect.h"
#include "src/stores/mysql/row_recipe.h"
#include "src/stores/mysql/text.h"

namespace holdfast::stores::mysql {
namespace {

constexpr char kMicros[] = "TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))";
constexpr std::size_t kLongestKey = 64;  // Characters, of MySQL; MariaDB takes 192 bytes.

Error bad(std::string what) { return {Errc::kInvalidArgument, "mysql URL: " + std::move(what)}; }

bool plain_table(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

std::string literal(const std::string& text) { return "_utf8mb4 " + text_of(text); }

// As GET_LOCK() takes it: the name, or a hash of a long one.
std::string lock_name(const std::string& name) {
  const auto characters = std::count_if(name.begin(), name.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  });
  const bool fits = std::cmp_less_equal(characters, kLongestKey) && name.size() <= 3 * kLongestKey;
  return fits ? literal(name) : "SHA2(" + literal(name) + ", 224)";
}

// The server ends the session when it has been silent for the length of a lease.
std::string bound_silence(const RecipeOptions& options) {
  const std::string seconds =
      std::to_string(std::chrono::ceil<std::chrono::seconds>(options.session).count());
  return "SET SESSION wait_timeout = " + seconds +
         ";/*M! SET SESSION idle_transaction_timeout = " + seconds + " */";
}

void describe_get_lock(recipes::HeldTerms& terms, const RecipeOptions& options) {
  terms.open = {bound_silence(options) + ";SELECT CONNECTION_ID()", {}, 2};
  // A session could take what it has once more.
  terms.take = [](const std::string& key) -> sql::Request {
    const std::string name = lock_name(key);
    return {"SELECT IF(IS_USED_LOCK(" + name + ") <=> CONNECTION_ID(), 0, GET_LOCK(" + name +
            ", 0)), " + kMicros + ", " + name};
  };
  terms.give_back = [](const std::string& key) -> sql::Request {
    return {"SELECT RELEASE_LOCK(" + lock_name(key) + ")"};
  };
  terms.inspect = [](const std::string& key) -> sql::Request {
    return {"SELECT l.id, IFNULL(p.user, ''), IFNULL(p.host, '') FROM (SELECT IS_USED_LOCK(" +
            lock_name(key) +
            ") AS id) l LEFT JOIN information_schema.processlist p ON p.id = l.id"
            " WHERE l.id IS NOT NULL"};
  };
  terms.describe = [](const std::string& name, const sql::Rows& rows) {
    std::optional<LockInfo> info;
    if (rows.size() == 0) return info;
    info.emplace().name = name;
    HolderInfo& holder = info->holders.emplace_back();
    holder.who.pid = rows.number(0, 0);
    holder.who.owner = rows.text(0, 1);
    holder.who.host = rows.text(0, 2);
    holder.who.reason = "a session of the server: its number is the pid";
    return info;
  };
}

void describe_for_update(recipes::HeldTerms& terms, const RecipeOptions& options) {
  const std::string table = options.table;
  const std::string there =
      "(SELECT MAX(engine) FROM information_schema.tables WHERE"
      " table_schema = DATABASE() AND table_name = '" +
      table + "')";
  terms.own_transaction = true;
  terms.connections = options.connections;
  terms.open = {"SET @holdfast = IF(" + there + " IS NULL, 'CREATE TABLE IF NOT EXISTS " + table +
                    " (lock_name " + kNameColumn +
                    " PRIMARY KEY) ENGINE = InnoDB', 'DO 0');PREPARE holdfast FROM "
                    "@holdfast;EXECUTE holdfast;"
                    "DEALLOCATE PREPARE holdfast;" +
                    bound_silence(options) + ";SELECT CONNECTION_ID(), " + there,
                {},
                6};
  // The row comes first, and in a transaction of its own, since a row that is not there cannot be
  // locked by one transaction alone.
  terms.begin = [table](const std::string& key) -> sql::Request {
    return {"INSERT INTO " + table + " (lock_name) SELECT " + literal(key) +
                " FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM " + table +
                " WHERE lock_name = " + literal(key) + ");START TRANSACTION",
            {},
            1};
  };
  terms.take = [table](const std::string& key) -> sql::Request {
    return {"SELECT 1, " + std::string(kMicros) + ", lock_name FROM " + table +
            " WHERE lock_name = " + literal(key) + " FOR UPDATE NOWAIT"};
  };
  terms.give_back = [](const std::string&) -> sql::Request { return {"COMMIT"}; };
}

Result<void> check_connection(const std::string& place, const sql::Rows& rows,
                              std::uint64_t told_id, bool rows_are_locked) {
  if (rows.number(0, 0) != static_cast<std::int64_t>(told_id)) {
    return Error(Errc::kUnsupported, place +
                                         ": this is a proxy, which may give the session and its "
                                         "locks to somebody else: name the server itself");
  }
  if (!rows_are_locked || rows.text(0, 1) == "InnoDB") return {};
  return Error(Errc::kCorruptState, place + ": the engine of the table is " +
                                        std::string(rows.text(0, 1)) +
                                        ", which locks no rows: change it to InnoDB");
}

}  // namespace

Errc code_of(const sql::Answer& answer) { return sql::code_of(failure_of(answer)); }

void add_recipe_finding(port::Findings& findings) {
  port::add(findings, Severity::kWarning, "recipe",
            "locks in another program's form have no fencing tokens and no order",
            "use the store without recipe= once every program does: docs/stores/mysql.md");
}

Result<RecipeOptions> take_recipe_options(port::StoreUrl& url) {
  const bool prefix = std::any_of(url.options.begin(), url.options.end(),
                                  [](const auto& option) { return option.first == "prefix"; });
  const auto given = port::UrlOptions::take(url, "mysql", kRecipeOptions);
  if (!given) return given.error();
  RecipeOptions options;
  const std::string recipe = given->text("recipe");
  if (recipe == "get-lock") options.recipe = Recipe::kGetLock;
  if (recipe == "for-update") options.recipe = Recipe::kForUpdate;
  if (recipe == "row") options.recipe = Recipe::kRow;
  const auto refuse = [&](const char* name, bool serves) { return given->has(name) && !serves; };
  const bool rows = options.recipe == Recipe::kRow;
  const bool locked = options.recipe == Recipe::kForUpdate;
  if (refuse("session", recipe != "")) return bad("session needs recipe=");
  if (refuse("table", rows || locked)) return bad("table needs recipe=row or recipe=for-update");
  if (refuse("connections", locked)) return bad("connections needs recipe=for-update");
  if (refuse("sweep", rows)) return bad("sweep needs recipe=row");
  if (prefix && recipe != "") return bad("prefix is of no use with recipe=: see table=");
  options.session = given->time("session");
  options.sweep = given->time("sweep");
  options.connections = given->number("connections");
  if (options.connections == 0) return bad("connections is at least 1");
  options.table = given->has("table") ? given->text("table")
                  : rows              ? "distributed_lock"
                                      : "locked_row";
  if (plain_table(options.table)) return options;
  return bad("table is a name of lower-case letters, digits and '_', at most 64 bytes");
}

Guarantees recipe_guarantees(const RecipeOptions& options) {
  Guarantees result = recipes::guarantees(
      "mysql", "all programs that lock the same names of one server by one form", options.session);
  result.faults = {
      {"holder is killed", Guarantee::kYes, Guarantee::kNo,
       "its connection ends, and the lock with it; a row ends with its expire_time"},
      {"holder is paused, or client and server are parted", Guarantee::kYes, Guarantee::kNo,
       "the server keeps the lock until the holder's deadline has passed"},
      {"server's wall clock jumps", Guarantee::kDeclared, Guarantee::kNo,
       "a row may end early or late; a session does not use that clock"},
      {"client's wall clock jumps, or its host is suspended", Guarantee::kYes, Guarantee::kNo,
       "deadlines count on boot time"},
  };
  if (options.recipe == Recipe::kRow) {
    result.survives_restart = true;
    result.faults.push_back({"another program compares expire_time with its own clock",
                             Guarantee::kDeclared, Guarantee::kNo,
                             "it takes over early by as much as that clock is ahead"});
    result.faults.push_back({"replica is promoted, or older data is restored", Guarantee::kDeclared,
                             Guarantee::kNo, "grants since then are lost"});
  } else {
    result.faults.push_back(
        {"server ends the session: restart, killed connection, connection reset",
         Guarantee::kDeclared, Guarantee::kNo,
         "the lock is free at once; the holder is told when the end of the connection arrives"});
  }
  return result;
}

Result<std::unique_ptr<port::Store>> make_recipe_store(const MysqlAddress& address,
                                                       const RecipeOptions& options,
                                                       const port::StoreContext& context) {
  if (options.recipe == Recipe::kRow) {
    return recipes::make_store(make_row_backend(address, options, *context.loop), context);
  }
  recipes::HeldTerms terms;
  terms.guarantees = recipe_guarantees(options);
  terms.place = address.display();
  terms.key_of = [](const std::string& name) { return Result<std::string>(name); };
  terms.patience = address.connect_timeout;
  const bool rows = options.recipe == Recipe::kForUpdate;
  terms.make_line = [address, place = terms.place, rows, session = options.session] {
    const auto current = std::make_shared<std::atomic<MysqlConnection*>>(nullptr);
    recipes::HeldTerms::Line line;
    line.link = link_settings(address, "holdfast-mylock", /*keep=*/false);
    line.link.longest_silence = session;
    line.link.connect = [inner = line.link.connect, current] {
      auto made = inner();
      *current = static_cast<MysqlConnection*>(made.get());
      return made;
    };
    line.check = [current, place, rows](const sql::Rows& answer) {
      return check_connection(place, answer, current->load()->thread_id(), rows);
    };
    return line;
  };
  rows ? describe_for_update(terms, options) : describe_get_lock(terms, options);
  terms.confirm = {"SELECT 1"};
  terms.examination = {"SELECT @@version"};
  terms.judge = [session = options.session](const sql::Rows& answer) {
    port::Findings findings;
    port::add(findings, Severity::kOk, "version", std::string(answer.text(0, 0)));
    port::add(findings, Severity::kOk, "session",
              "the server ends this client's silent session after " +
                  std::to_string(session.count()) + " ms, and its locks with it");
    add_recipe_finding(findings);
    return findings;
  };
  // A row that somebody has locked (MariaDB, MySQL), or is just inserting.
  terms.is_busy = [](const sql::Answer& answer) {
    const auto known = {"1062", "1205", "1213", "3572"};
    return std::find(known.begin(), known.end(), answer.code) != known.end();
  };
  terms.code_of = &code_of;
  return recipes::make_store(recipes::make_held_backend(std::move(terms), *context.loop), context);
}

}  // namespace holdfast::stores::mysql
