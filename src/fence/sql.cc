#include "holdfast/fence/sql.h"

namespace holdfast::fence::sql {
namespace {

// A token's column compares bytes, whatever the database's own collation.
std::string token_type(Dialect dialect) {
  switch (dialect) {
    case Dialect::kPostgres: return "text COLLATE \"C\"";
    case Dialect::kMySql: return "char(31) CHARACTER SET ascii COLLATE ascii_bin";
    case Dialect::kSqlite: return "TEXT COLLATE BINARY";
  }
  return {};
}

std::string repeated(const char* what, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += what;
  return all;
}

// PostgreSQL takes a text parameter for the connection's encoding, so that the same bytes would be
// two names on two connections. Bytes it leaves alone.
std::string postgres_name() { return "convert_from($1::bytea, 'UTF8')"; }

// Holds off what anything but a guard might put there: other text could be above every token.
std::string check_of(Dialect dialect) {
  switch (dialect) {
    case Dialect::kPostgres: return "CHECK (token ~ '^[0-9]{10}[.][0-9]{20}$')";
    case Dialect::kMySql: return "CHECK (token REGEXP '^[0-9]{10}[.][0-9]{20}$')";
    case Dialect::kSqlite:
      return "CHECK (typeof(token) = 'text' AND token GLOB '" + repeated("[0-9]", 10) + "." +
             repeated("[0-9]", 20) + "')";
  }
  return {};
}

}  // namespace

std::string create_table(Dialect dialect) {
  // Names are binary: 'a' and 'A', or 'a' and 'a ', are different resources.
  std::string resource = "resource text COLLATE \"C\" PRIMARY KEY";
  std::string end = ")";
  if (dialect == Dialect::kMySql) {
    resource = "resource varbinary(256) NOT NULL PRIMARY KEY";
    end = ") ENGINE = InnoDB";
  } else if (dialect == Dialect::kSqlite) {
    resource = "resource TEXT COLLATE BINARY NOT NULL PRIMARY KEY";
  }
  const std::string table = dialect == Dialect::kSqlite ? "main.holdfast_fence" : "holdfast_fence";
  return "CREATE TABLE IF NOT EXISTS " + table + " (" + resource + ", token " +
         token_type(dialect) + " NOT NULL " + check_of(dialect) + end;
}

std::string guard(Dialect dialect) {
  switch (dialect) {
    case Dialect::kPostgres:
      return "INSERT INTO holdfast_fence AS f (resource, token)"
             " VALUES (" +
             postgres_name() +
             ", $2)"
             " ON CONFLICT (resource) DO UPDATE SET token = GREATEST(f.token, EXCLUDED.token)"
             " RETURNING token";
    case Dialect::kMySql:
      return "INSERT INTO holdfast_fence (resource, token) VALUES (?, ?)"
             " ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))";
    case Dialect::kSqlite:
      return "INSERT INTO main.holdfast_fence (resource, token) VALUES (?, ?)"
             " ON CONFLICT (resource) DO UPDATE SET token = max(token, excluded.token)"
             " RETURNING token";
  }
  return {};
}

std::string read_recorded(Dialect dialect) {
  switch (dialect) {
    case Dialect::kPostgres:
      return "SELECT token FROM holdfast_fence WHERE resource = " + postgres_name() + " FOR SHARE";
    case Dialect::kMySql:
      return "SELECT token FROM holdfast_fence WHERE resource = ? LOCK IN SHARE MODE";
    case Dialect::kSqlite: return "SELECT token FROM main.holdfast_fence WHERE resource = ?";
  }
  return {};
}

std::string column(Dialect dialect, std::string_view name) {
  return std::string(name) + " " + token_type(dialect) + " NOT NULL DEFAULT '" +
         std::string(kNoToken) + "'";
}

}  // namespace holdfast::fence::sql
