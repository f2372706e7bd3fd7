#include "holdfast/fence/sqlite.h"

#include <sqlite3.h>

#include <memory>
#include <optional>
#include <vector>

#include "holdfast/fence/sql.h"
#include "src/fence/recorded.h"

namespace holdfast::fence::sqlite {
namespace {

constexpr auto kDialect = sql::Dialect::kSqlite;

struct Finalize {
  void operator()(sqlite3_stmt* statement) const { ::sqlite3_finalize(statement); }
};

Errc code_of(int status) {
  switch (status & 0xff) {
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_CANTOPEN: return Errc::kPermissionDenied;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH: return Errc::kCorruptState;
    // No such table; misuse. A statement of ours that SQLite does not understand is no passing
    // thing.
    case SQLITE_ERROR:
    case SQLITE_MISUSE: return Errc::kInvalidArgument;
    default: return Errc::kUnavailable;
  }
}

Error failed(sqlite3* connection, int status) {
  std::string text = ::sqlite3_errmsg(connection);
  const Errc code = code_of(status);
  if (text.find("no such table") != std::string::npos) {
    text += ". Make it first: fence::sqlite::create_table()";
  }
  if (code == Errc::kUnavailable) text += ". Roll back; the transaction may be tried again";
  return {code, "the guard's statement failed: " + text};
}

// The first column of the first row; nullopt: no row. Runs the statement to its end.
Result<std::optional<std::string>> ask(sqlite3* connection, const std::string& text,
                                       const std::vector<std::string>& parameters) {
  sqlite3_stmt* raw = nullptr;
  int status = ::sqlite3_prepare_v2(connection, text.c_str(), -1, &raw, nullptr);
  const std::unique_ptr<sqlite3_stmt, Finalize> statement(raw);
  int place = 0;
  for (const std::string& each : parameters) {
    if (status != SQLITE_OK) break;
    status = ::sqlite3_bind_text(raw, ++place, each.data(), static_cast<int>(each.size()),
                                 SQLITE_TRANSIENT);
  }
  if (status != SQLITE_OK) return failed(connection, status);
  std::optional<std::string> value;
  while ((status = ::sqlite3_step(raw)) == SQLITE_ROW) {
    const auto* bytes = reinterpret_cast<const char*>(::sqlite3_column_text(raw, 0));
    const auto size = static_cast<std::size_t>(::sqlite3_column_bytes(raw, 0));
    value = bytes == nullptr ? std::string() : std::string(bytes, size);
  }
  if (status != SQLITE_DONE) return failed(connection, status);
  return value;
}

}  // namespace

Result<void> create_table(sqlite3* connection) {
  auto made = ask(connection, sql::create_table(kDialect), {});
  if (!made) return made.error();
  return {};
}

Result<void> guard(sqlite3* connection, const std::string& resource, const Token& token,
                   const Mode& mode) {
  if (auto sound = check_call(resource, token, mode); !sound) return sound;
  if (::sqlite3_get_autocommit(connection) != 0) return no_transaction("BEGIN IMMEDIATE");
  const bool shared = mode.kind() == Mode::Kind::kShared;
  auto recorded = shared ? ask(connection, sql::read_recorded(kDialect), {resource})
                         : ask(connection, sql::guard(kDialect), {resource, token.to_string()});
  if (!recorded) return recorded.error();
  if (shared && !*recorded) return {};  // The transaction reads the state of this moment, too.
  return judge(recorded->value_or(""), resource, token, mode);
}

}  // namespace holdfast::fence::sqlite
