// The fail-over store's name, and the facts about every one: see holdfast/stores.h.
#pragma once

#include <string_view>

#include "holdfast/stores.h"

namespace holdfast::stores::failover {

inline constexpr std::string_view kUrlStarts[] = {"failover:"};
inline constexpr StoreExample kExamples[] = {
    {"failover:?chain=redis%3A%2F%2Flocks.example&chain=postgres%3A%2F%2Fdb.example%2Fapp",
     "a Redis, and a database when it is away"}};
inline constexpr std::string_view kOpenOptions[] = {"authority", "patience", "settled", "name"};
inline constexpr std::string_view kLeavesOut[] = {
    "values", "multi", "watch-every-change", "survives-restart", "survives-failover"};

inline constexpr StoreKind kManifest{
    .name = "failover",
    .title = "fail-over",
    .url_starts = kUrlStarts,
    .pattern = "failover:?chain=URL&chain=URL",
    .examples = kExamples,
    .open_options = kOpenOptions,
    .leaves_out = kLeavesOut,
    .bound_to_client = true,
    .is_chain = true,
};

}  // namespace holdfast::stores::failover
