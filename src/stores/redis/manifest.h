// The Redis store's name, and the facts about every one: see holdfast/stores.h.
#pragma once

#include <string_view>

#include "holdfast/stores.h"

namespace holdfast::stores::redis {

inline constexpr std::string_view kUrlStarts[] = {"redis://", "rediss://", "redis+unix:///",
                                                  "redis+sentinel://", "rediss+sentinel://",
                                                  "redis+cluster://", "rediss+cluster://"};
inline constexpr StoreExample kExamples[] = {
    {"redis://locks.example:6379", "one Redis or Valkey; rediss://HOST with TLS,"},
    {"redis+unix:///run/redis/redis.sock", "through a socket"},
    {"redis+sentinel://s1,s2,s3?primary=m", "by Sentinels; rediss+sentinel://HOST with TLS"},
    {"redis+cluster://n1,n2,n3", "a cluster; rediss+cluster://HOST with TLS"}};
inline constexpr std::string_view kOpenOptions[] = {
    "db",          "connect_timeout", "user",     "password_file", "password_env",
    "password_fd", "tls_ca",          "tls_cert", "tls_key",       "tls_name",
    "replicas", "replicas_timeout", "primary", "sentinel_user", "sentinel_password_file",
    "sentinel_password_env", "sentinel_password_fd", "sentinel_tls", "sentinel_tls_ca",
    "sentinel_tls_cert", "sentinel_tls_key", "sentinel_tls_name", "recipe", "session", "prefix"};
inline constexpr std::string_view kLeavesOut[] = {"watch-every-change", "survives-restart",
                                                  "survives-failover"};

inline constexpr StoreKind kManifest{
    .name = "redis",
    .title = "Redis",
    .url_starts = kUrlStarts,
    .pattern = "redis://HOST, rediss://HOST, redis+unix:///SOCKET, "
               "redis+sentinel://HOST,HOST, rediss+sentinel://HOST,HOST, "
               "redis+cluster://HOST,HOST, rediss+cluster://HOST,HOST",
    .examples = kExamples,
    .login = StoreLogin::kPassword,
    .secret_variable = "HOLDFAST_REDIS_PASSWORD",
    .path_is_number = true,
    .open_options = kOpenOptions,
    .leaves_out = kLeavesOut,
    .has_records = true,
    .counter = "a string key, raised by INCRBY",
    .may_forget = "the newest changes, at a fail-over, and in a crash unless appendfsync is always",
};

}  // namespace holdfast::stores::redis
