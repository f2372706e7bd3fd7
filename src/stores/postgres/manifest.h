// The PostgreSQL store's name, and the facts about every one: see holdfast/stores.h.
#pragma once

#include <string_view>

#include "holdfast/stores.h"

namespace holdfast::stores::postgres {

inline constexpr std::string_view kUrlStarts[] = {"postgres://", "postgress://",
                                                  "postgres+unix:///"};
inline constexpr StoreExample kExamples[] = {
    {"postgres://db.example/app", "a database of PostgreSQL; postgress://HOST/DB with TLS,"},
    {"postgres+unix:///run/postgresql", "through a socket"}};
inline constexpr std::string_view kOpenOptions[] = {
    "schema",       "database",    "port",        "connect_timeout", "user",    "password_file",
    "password_env", "password_fd", "tls_ca",      "tls_cert",        "tls_key", "recipe",
    "session",      "key",         "connections", "create"};
inline constexpr std::string_view kLeavesOut[] = {"watch-every-change", "survives-failover"};

inline constexpr StoreKind kManifest{
    .name = "postgres",
    .title = "PostgreSQL",
    .url_starts = kUrlStarts,
    .pattern = "postgres://HOST/DB, postgress://HOST/DB, postgres+unix:///DIR",
    .examples = kExamples,
    .login = StoreLogin::kPassword,
    .secret_variable = "HOLDFAST_POSTGRES_PASSWORD",
    .open_options = kOpenOptions,
    .leaves_out = kLeavesOut,
    .has_schema = true,
    .has_records = true,
    .counter = "a sequence, raised by nextval()",
    .may_forget = "the newest changes, if fsync or full_page_writes is off, or an asynchronous "
                  "standby is promoted",
};

}  // namespace holdfast::stores::postgres
