// The name of the store on Holdfast's own lock service, and the facts about every one: see
// holdfast/stores.h.
#pragma once

#include <string_view>

#include "holdfast/stores.h"

namespace holdfast::stores::holdfast {

inline constexpr std::string_view kUrlStarts[] = {"holdfast://", "holdfasts://"};
inline constexpr StoreExample kExamples[] = {
    {"holdfast://127.0.0.1:7420",
     "Holdfast's lock service ('holdfast serve'); holdfasts://USER@HOST with TLS"}};
inline constexpr std::string_view kOpenOptions[] = {
    "connect_timeout", "user",     "password_file", "password_env", "password_fd",
    "tls_ca",          "tls_cert", "tls_key",       "tls_name"};
inline constexpr std::string_view kLeavesOut[] = {"survives-failover"};

inline constexpr StoreKind kManifest{
    .name = "holdfast",
    .title = "Holdfast's lock service",
    .url_starts = kUrlStarts,
    .pattern = "holdfast://HOST, holdfasts://HOST",
    .examples = kExamples,
    .login = StoreLogin::kPassword,
    .secret_variable = "HOLDFAST_SERVICE_PASSWORD",
    .open_options = kOpenOptions,
    .leaves_out = kLeavesOut,
    .is_service = true,
    .has_records = true,
    .may_forget = "everything, when the server ends, if its journal is in memory",
};

}  // namespace holdfast::stores::holdfast
