// The Redlock store's name, and the facts about every one: see holdfast/stores.h.
#pragma once

#include <string_view>

#include "holdfast/stores.h"

namespace holdfast::stores::redlock {

inline constexpr std::string_view kUrlStarts[] = {"redlock://", "redlocks://"};
inline constexpr StoreExample kExamples[] = {
    {"redlock://a.example,b.example,c.example", "a majority of independent Redis servers;"},
    {"redlocks://a.example,b.example,c.example", "with TLS"}};
inline constexpr std::string_view kOpenOptions[] = {
    "db",           "connect_timeout", "node_timeout", "timeout", "longest_ttl",
    "tokens",       "names", "user",            "password_file", "password_env", "password_fd",
    "tls_ca",       "tls_cert",        "tls_key",      "tls_name"};
inline constexpr std::string_view kLeavesOut[] = {
    "fair",  "shared",  "permits",           "upgrade",
    "values", "multi", "watch-every-change", "survives-restart", "survives-failover"};

inline constexpr StoreKind kManifest{
    .name = "redlock",
    .title = "Redlock",
    .url_starts = kUrlStarts,
    .pattern = "redlock://HOST,HOST,HOST, redlocks://...",
    .examples = kExamples,
    .login = StoreLogin::kPassword,
    .secret_variable = "HOLDFAST_REDIS_PASSWORD",
    .path_is_number = true,
    .open_options = kOpenOptions,
    .leaves_out = kLeavesOut,
    .has_schema = true,  // Each node's record.
};

}  // namespace holdfast::stores::redlock
