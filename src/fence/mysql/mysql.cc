#include "holdfast/fence/mysql.h"

#include <mysql.h>

#include <memory>
#include <optional>
#include <string_view>

#include "holdfast/fence/sql.h"
#include "src/base/hex.h"
#include "src/fence/recorded.h"

namespace holdfast::fence::mysql {
namespace {

constexpr auto kDialect = sql::Dialect::kMySql;

// The server's numbers, from mysqld_error.h, which not every client's package has.
constexpr unsigned kDbAccessDenied = 1044;
constexpr unsigned kAccessDenied = 1045;
constexpr unsigned kNoDatabase = 1046;
constexpr unsigned kTableAccessDenied = 1142;
constexpr unsigned kColumnAccessDenied = 1143;
constexpr unsigned kNoSuchTable = 1146;
constexpr unsigned kUnknownColumn = 1054;
constexpr unsigned kRightNeeded = 1227;
constexpr unsigned kOptionPreventsStatement = 1290;
constexpr unsigned kReadOnlyTransaction = 1792;
constexpr unsigned kReadOnlyMode = 1836;
constexpr unsigned kOutOfSync = 2014;  // The client library's own.

struct Free {
  void operator()(MYSQL_RES* result) const { ::mysql_free_result(result); }
};

Errc code_of(unsigned number) {
  switch (number) {
    case kDbAccessDenied:
    case kAccessDenied:
    case kTableAccessDenied:
    case kColumnAccessDenied:
    case kRightNeeded:
    case kOptionPreventsStatement:
    case kReadOnlyTransaction:
    case kReadOnlyMode: return Errc::kPermissionDenied;
    case kNoDatabase:
    case kNoSuchTable:
    case kOutOfSync: return Errc::kInvalidArgument;
    case kUnknownColumn: return Errc::kCorruptState;
    default: return Errc::kUnavailable;  // Deadlock, timeout, no connection: all is taken back.
  }
}

Error failed(MYSQL* connection) {
  const unsigned number = ::mysql_errno(connection);
  std::string text = ::mysql_error(connection);
  if (number == kNoSuchTable) text += ". Make the table first: fence::mysql::create_table()";
  if (number == kOutOfSync) text += ". Read the result of the statement before";
  const Errc code = code_of(number);
  if (code == Errc::kUnavailable) text += ". Roll back; the transaction may be tried again";
  return {code, "the guard's statement failed: " + text};
}

Result<void> execute(MYSQL* connection, const std::string& statement) {
  if (::mysql_real_query(connection, statement.data(), statement.size()) != 0) {
    return failed(connection);
  }
  return {};
}

// nullopt: no row.
Result<std::optional<std::string>> ask(MYSQL* connection, const std::string& statement) {
  if (auto sent = execute(connection, statement); !sent) return sent.error();
  const std::unique_ptr<MYSQL_RES, Free> result(::mysql_store_result(connection));
  if (result == nullptr) return failed(connection);
  const MYSQL_ROW row = ::mysql_fetch_row(result.get());
  if (row == nullptr || row[0] == nullptr) return std::optional<std::string>();
  return std::optional(std::string(row[0], ::mysql_fetch_lengths(result.get())[0]));
}

// Writes bytes as digits, because the rules of escaping depend on the connection's character set
// and modes.
std::string hexadecimal(std::string_view bytes) {
  return "X'" + base::hex_of(bytes) + "'";
}

std::string with(std::string statement, const std::string& resource, std::string_view token = "") {
  statement.replace(statement.find('?'), 1, hexadecimal(resource));
  if (!token.empty()) {
    statement.replace(statement.find('?'), 1, "'" + std::string(token) + "'");
  }
  return statement;
}

// With autocommit off the guard's own statement begins the transaction.
bool is_open(const MYSQL* connection) {
  return (connection->server_status & SERVER_STATUS_IN_TRANS) != 0 ||
         (connection->server_status & SERVER_STATUS_AUTOCOMMIT) == 0;
}

// Raises the record to the token, which may be none, and reads it under the row's lock.
Result<std::optional<std::string>> raise(MYSQL* connection, const std::string& resource,
                                         std::string_view token) {
  if (auto raised = execute(connection, with(sql::guard(kDialect), resource, token)); !raised) {
    return raised.error();
  }
  return ask(connection, with(sql::read_recorded(kDialect), resource));
}

}  // namespace

Result<void> create_table(st_mysql* connection) {
  if ((connection->server_status & SERVER_STATUS_IN_TRANS) != 0) {
    return Error(Errc::kInvalidArgument,
                 "making a table would commit the open transaction: make it before, once");
  }
  if (auto made = execute(connection, sql::create_table(kDialect)); !made) return made;
  auto engine = ask(connection,
                    "SELECT engine FROM information_schema.tables WHERE table_schema = DATABASE()"
                    " AND table_name = 'holdfast_fence'");
  if (!engine) return engine.error();
  if (*engine != "InnoDB") {
    return Error(Errc::kCorruptState,
                 "the table holdfast_fence is one of " + engine->value_or("none") +
                     ", not of InnoDB: without transactions it guards nothing");
  }
  return {};
}

Result<void> guard(st_mysql* connection, const std::string& resource, const Token& token,
                   const Mode& mode) {
  if (auto sound = check_call(resource, token, mode); !sound) return sound;
  if (!is_open(connection)) return no_transaction("START TRANSACTION");
  const bool exclusive = mode.kind() == Mode::Kind::kExclusive;
  auto recorded = exclusive ? raise(connection, resource, token.to_string())
                            : ask(connection, with(sql::read_recorded(kDialect), resource));
  // Without a row there is nothing to lock, so one is made. If another transaction makes it
  // meanwhile, this one waits.
  if (recorded && !*recorded) recorded = raise(connection, resource, sql::kNoToken);
  if (!recorded) return recorded.error();
  return judge(recorded->value_or(""), resource, token, mode);
}

}  // namespace holdfast::fence::mysql
