// The Consul store's name, and the facts about every one: see holdfast/stores.h.
#pragma once

#include <string_view>

#include "holdfast/stores.h"

namespace holdfast::stores::consul {

inline constexpr std::string_view kUrlStarts[] = {"consul://", "consuls://"};
inline constexpr StoreExample kExamples[] = {
    {"consul://127.0.0.1:8500", "a Consul agent; consuls://HOST with TLS"}};
inline constexpr std::string_view kOpenOptions[] = {
    "connect_timeout", "session",  "recipe", "dc",       "lock_delay", "token_env",
    "token_file",      "token_fd", "tls_ca", "tls_cert", "tls_key",    "tls_name"};
inline constexpr std::string_view kLeavesOut[] = {"watch-every-change", "multi"};

inline constexpr StoreKind kManifest{
    .name = "consul",
    .title = "Consul",
    .url_starts = kUrlStarts,
    .pattern = "consul://HOST, consuls://HOST",
    .examples = kExamples,
    .login = StoreLogin::kToken,
    .secret_variable = "HOLDFAST_CONSUL_TOKEN",
    .open_options = kOpenOptions,
    .leaves_out = kLeavesOut,
    .bound_to_client = true,
    .has_records = true,
};

}  // namespace holdfast::stores::consul
