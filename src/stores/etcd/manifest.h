// The etcd store's name, and the facts about every one: see holdfast/stores.h.
#pragma once

#include <string_view>

#include "holdfast/stores.h"

namespace holdfast::stores::etcd {

inline constexpr std::string_view kUrlStarts[] = {"etcd://", "etcds://"};
inline constexpr StoreExample kExamples[] = {
    {"etcd://e1:2379,e2:2379,e3:2379", "an etcd cluster; etcds://HOST with TLS"}};
inline constexpr std::string_view kOpenOptions[] = {
    "connect_timeout", "session", "recipe",   "user",    "password_file", "password_env",
    "password_fd",     "tls_ca",  "tls_cert", "tls_key", "tls_name"};
inline constexpr std::string_view kLeavesOut[] = {"watch-every-change", "multi"};

inline constexpr StoreKind kManifest{
    .name = "etcd",
    .title = "etcd",
    .url_starts = kUrlStarts,
    .pattern = "etcd://HOST,HOST,HOST, etcds://HOST",
    .examples = kExamples,
    .login = StoreLogin::kPassword,
    .secret_variable = "HOLDFAST_ETCD_PASSWORD",
    .open_options = kOpenOptions,
    .leaves_out = kLeavesOut,
    .bound_to_client = true,
    .has_journal = true,
    .has_records = true,
};

}  // namespace holdfast::stores::etcd
