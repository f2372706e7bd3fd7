// Where a PostgreSQL server is and how to show oneself to it, as a store URL says it.
//
//   postgres://[user[:password]@]host[:port][,host[:port]...][/database]    port 5432
//   postgress://...                                                         with TLS
//   postgres+unix:///run/postgresql[?port=5432&database=NAME]               its socket's folder
//
// Several hosts are tried in turn; the first that takes writes is used. Named in no other way, the
// password is that of HOLDFAST_POSTGRES_PASSWORD or else PGPASSWORD.
//
// Guarantee: no message that comes of an address holds a password. Thread-safety: values.
// Errors: kInvalidArgument, with what was expected; kPermissionDenied or kInvalidArgument when a
// password's file or descriptor cannot be read.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/result.h"
#include "src/port/store_url.h"
#include "src/port/url_parts.h"
#include "src/sql/sql_store.h"

namespace holdfast::stores::postgres {

inline constexpr port::UrlOption kUrlOptions[] = {
    port::text_option("schema", "the schema of the tables (default: holdfast)"),
    port::text_option("database", "the database; it may also be the path"),
    port::number_option("port", "", "with postgres+unix: the server's port", 65'535),
    port::time_option("connect_timeout", "3s", "for one host, TLS and log-in included"),
    sql::kCreateOption,
};

struct PostgresAddress {
  std::vector<port::Endpoint> hosts;
  std::string socket_folder;  // Not empty: through a Unix socket.
  std::uint32_t socket_port = 5432;
  std::string database = "postgres";
  std::string schema = "holdfast";
  bool create = true;  // Missing tables.
  port::Login login;
  bool tls = false;
  port::TlsPaths tls_paths;
  std::chrono::milliseconds connect_timeout{3000};
  bool overrides_options = false;  // libpq would send those of its environment.

  // "postgres://host:5432/database": for messages.
  std::string display() const;
  // For libpq.
  std::vector<std::pair<std::string, std::string>> keywords() const;
};

// Takes from `url` what an address is made of, the path included; other options stay in it, for the
// caller to take or refuse.
Result<PostgresAddress> parse_postgres_url(port::StoreUrl& url);

}  // namespace holdfast::stores::postgres
