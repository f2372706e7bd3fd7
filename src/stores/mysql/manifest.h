// The MySQL store's name, and the facts about every one: see holdfast/stores.h.
#pragma once

#include <string_view>

#include "holdfast/stores.h"

namespace holdfast::stores::mysql {

inline constexpr std::string_view kUrlStarts[] = {"mysql://", "mysqls://", "mysql+unix:///"};
inline constexpr StoreExample kExamples[] = {
    {"mysql://db.example/app", "a database of MySQL or MariaDB; mysqls://HOST/DB with TLS,"},
    {"mysql+unix:///run/mysqld/mysqld.sock", "through a socket"}};
inline constexpr std::string_view kOpenOptions[] = {
    "prefix",       "database",    "connect_timeout", "user",     "password_file",
    "password_env", "password_fd", "tls_ca",          "tls_cert", "tls_key",
    "recipe",       "session",     "table",           "connections", "sweep",
    "create"};
inline constexpr std::string_view kLeavesOut[] = {"watch-every-change", "survives-failover"};

inline constexpr StoreKind kManifest{
    .name = "mysql",
    .title = "MySQL and MariaDB",
    .url_starts = kUrlStarts,
    .pattern = "mysql://HOST/DB, mysqls://HOST/DB, mysql+unix:///SOCKET",
    .examples = kExamples,
    .login = StoreLogin::kPassword,
    .secret_variable = "HOLDFAST_MYSQL_PASSWORD",
    .open_options = kOpenOptions,
    .leaves_out = kLeavesOut,
    .has_schema = true,
    .has_records = true,
    .counter = "the only row of a table, raised by LAST_INSERT_ID(v + n)",
    .may_forget = "the newest changes, in a crash, unless innodb_flush_log_at_trx_commit and "
                  "sync_binlog are 1",
};

}  // namespace holdfast::stores::mysql
