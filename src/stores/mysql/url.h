// Where a MySQL or MariaDB server is and how to show oneself to it, as a store URL says it.
//
//   mysql://[user[:password]@]host[:port][,host[:port]...][/database]    port 3306
//   mysqls://...                                                         with TLS
//   mysql+unix:///run/mysqld/mysqld.sock[?database=NAME]                 its socket
//
// Several hosts are tried in turn; the first that takes writes is used. Named in no other way, the
// password is that of HOLDFAST_MYSQL_PASSWORD or else MYSQL_PWD.
//
// Guarantee: no message that comes of an address holds a password. Thread-safety: values.
// Errors: kInvalidArgument, with what was expected; kPermissionDenied or kInvalidArgument when a
// password's file or descriptor cannot be read.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "holdfast/result.h"
#include "src/port/store_url.h"
#include "src/port/url_options.h"
#include "src/port/url_parts.h"
#include "src/sql/sql_store.h"

namespace holdfast::stores::mysql {

inline constexpr port::UrlOption kUrlOptions[] = {
    port::text_option("prefix", "the tables' names begin with it (default: holdfast_)"),
    port::text_option("database", "the database; it may also be the path (default: holdfast)"),
    port::time_option("connect_timeout", "3s", "for one host, TLS and log-in included"),
    sql::kCreateOption,
};

struct MysqlAddress {
  std::vector<port::Endpoint> hosts;
  std::string socket;  // Not empty: through a Unix socket.
  std::string database = "holdfast";
  std::string prefix = "holdfast_";
  bool create = true;  // Missing tables.
  port::Login login;
  bool tls = false;
  port::TlsPaths tls_paths;
  std::chrono::milliseconds connect_timeout{3000};

  // "mysql://host:3306/database": for messages.
  std::string display() const;
};

// Takes from `url` what an address is made of, the path included; other options stay in it, for the
// caller to take or refuse.
Result<MysqlAddress> parse_mysql_url(port::StoreUrl& url);

}  // namespace holdfast::stores::mysql
