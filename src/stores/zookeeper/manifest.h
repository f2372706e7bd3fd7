// The ZooKeeper store's name, and the facts about every one: see holdfast/stores.h.
#pragma once

#include <string_view>

#include "holdfast/stores.h"

namespace holdfast::stores::zookeeper {

inline constexpr std::string_view kUrlStarts[] = {"zookeeper://"};
inline constexpr StoreExample kExamples[] = {{"zookeeper://zk1,zk2,zk3", "a ZooKeeper ensemble"}};
inline constexpr std::string_view kOpenOptions[] = {
    "session",     "recipe", "user",     "password_file", "password_env",
    "password_fd", "tls_ca", "tls_cert", "tls_key",       "tls_name"};
inline constexpr std::string_view kLeavesOut[] = {"watch-every-change", "multi"};

inline constexpr StoreKind kManifest{
    .name = "zookeeper",
    .title = "ZooKeeper",
    .url_starts = kUrlStarts,
    .pattern = "zookeeper://HOST,HOST,HOST",
    .examples = kExamples,
    .login = StoreLogin::kPassword,
    .secret_variable = "HOLDFAST_ZOOKEEPER_PASSWORD",
    .open_options = kOpenOptions,
    .leaves_out = kLeavesOut,
    .bound_to_client = true,
    .has_records = true,
    .counter = "the numbers of sequential nodes in a folder",
};

}  // namespace holdfast::stores::zookeeper
