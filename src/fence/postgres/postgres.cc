#include "holdfast/fence/postgres.h"

#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <libpq-fe.h>

#include "holdfast/fence/sql.h"
#include "src/fence/recorded.h"

namespace holdfast::fence::postgres {
namespace {

constexpr auto kDialect = sql::Dialect::kPostgres;

struct Clear {
  void operator()(PGresult* result) const { ::PQclear(result); }
};
using Answer = std::unique_ptr<PGresult, Clear>;

std::string one_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  for (char& each : text) {
    if (each == '\n') each = ' ';
  }
  return text;
}

// The code of a SQLSTATE. After an unknown one the transaction is rolled back, too.
Errc code_of(std::string_view state) {
  struct Row {
    std::string_view state;
    Errc code;
  };
  constexpr std::array<Row, 10> kRows{{{"42501", Errc::kPermissionDenied},
                                       {"25006", Errc::kPermissionDenied},
                                       {"42P01", Errc::kInvalidArgument},
                                       {"3F000", Errc::kInvalidArgument},
                                       {"42703", Errc::kCorruptState},
                                       {"42P10", Errc::kCorruptState},
                                       {"23514", Errc::kCorruptState},
                                       {"22021", Errc::kInvalidArgument},
                                       {"22P05", Errc::kInvalidArgument},
                                       {"25P02", Errc::kInvalidArgument}}};
  for (const Row& row : kRows) {
    if (row.state == state) return row.code;
  }
  return Errc::kUnavailable;
}

Error failed(PGconn* connection, const PGresult* result) {
  const char* field = result == nullptr ? nullptr : ::PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const std::string_view state = field == nullptr ? "" : field;
  std::string text =
      one_line(result == nullptr ? ::PQerrorMessage(connection) : ::PQresultErrorMessage(result));
  if (state == "42P01") text += ". Make the table first: fence::postgres::create_table()";
  const Errc code = code_of(state);
  if (code == Errc::kUnavailable) text += ". Roll back; the transaction may be tried again";
  return {code, "the guard's statement failed: " + text};
}

Result<Answer> execute(PGconn* connection, const std::string& statement,
                       const std::vector<std::string>& parameters = {}) {
  std::vector<const char*> values;
  std::vector<int> lengths;
  for (const std::string& each : parameters) {
    values.push_back(each.c_str());
    lengths.push_back(static_cast<int>(each.size()));
  }
  std::vector<int> formats(parameters.size(), 0);
  if (!formats.empty()) formats.front() = 1;  // The resource: see sql.cc.
  Answer answer(::PQexecParams(connection, statement.c_str(), static_cast<int>(values.size()),
                               nullptr, values.data(), lengths.data(), formats.data(), 0));
  const auto status = ::PQresultStatus(answer.get());
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
    return failed(connection, answer.get());
  }
  return answer;
}

Result<void> check_transaction(PGconn* connection) {
  switch (::PQtransactionStatus(connection)) {
    case PQTRANS_INTRANS: return {};
    case PQTRANS_IDLE: return no_transaction("BEGIN");
    case PQTRANS_ACTIVE:
      return Error(Errc::kInvalidArgument,
                   "another statement of this connection is under way: read its result first");
    case PQTRANS_INERROR:
      return Error(Errc::kInvalidArgument,
                   "the transaction has failed already: roll back and start again");
    case PQTRANS_UNKNOWN: break;
  }
  return Error(Errc::kUnavailable,
               "the connection is down: " + one_line(::PQerrorMessage(connection)) +
                   ". Its open transaction is rolled back");
}

// nullopt: no row.
Result<std::optional<std::string>> ask(PGconn* connection, const std::string& statement,
                                       const std::vector<std::string>& parameters) {
  auto answer = execute(connection, statement, parameters);
  if (!answer) return answer.error();
  if (::PQntuples(answer->get()) == 0) return std::optional<std::string>();
  return std::optional(std::string(::PQgetvalue(answer->get(), 0, 0)));
}

}  // namespace

Result<void> create_table(pg_conn* connection) {
  auto made = execute(connection, sql::create_table(kDialect));
  if (!made) return made.error();
  return {};
}

Result<void> guard(pg_conn* connection, const std::string& resource, const Token& token,
                   const Mode& mode) {
  if (auto sound = check_call(resource, token, mode); !sound) return sound;
  if (auto open = check_transaction(connection); !open) return open;
  const auto raise = [&](std::string_view to) {
    return ask(connection, sql::guard(kDialect), {resource, std::string(to)});
  };
  const bool exclusive = mode.kind() == Mode::Kind::kExclusive;
  auto recorded = exclusive ? raise(token.to_string())
                            : ask(connection, sql::read_recorded(kDialect), {resource});
  // A row, so that there is something to lock. Whoever else makes it meanwhile is waited for.
  if (recorded && !*recorded) recorded = raise(sql::kNoToken);
  if (!recorded) return recorded.error();
  return judge(recorded->value_or(""), resource, token, mode);
}

}  // namespace holdfast::fence::postgres
