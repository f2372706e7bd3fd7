// The memcached store's name, and the facts about every one: see holdfast/stores.h.
#pragma once

#include <string_view>

#include "holdfast/stores.h"

namespace holdfast::stores::memcached {

inline constexpr std::string_view kUrlStarts[] = {"memcached://"};
inline constexpr StoreExample kExamples[] = {
    {"memcached://cache.example:11211", "one memcached; to save work, never to protect data"}};
inline constexpr std::string_view kOpenOptions[] = {"connect_timeout", "poll"};
inline constexpr std::string_view kLeavesOut[] = {
    "fenced", "list", "multi", "watch-every-change", "survives-restart", "survives-failover"};

inline constexpr StoreKind kManifest{
    .name = "memcached",
    .title = "memcached",
    .url_starts = kUrlStarts,
    .pattern = "memcached://HOST",
    .examples = kExamples,
    .open_options = kOpenOptions,
    .leaves_out = kLeavesOut,
};

}  // namespace holdfast::stores::memcached
