// The SQLite store's name, and the facts about every one: see holdfast/stores.h.
#pragma once

#include <string_view>

#include "holdfast/stores.h"

namespace holdfast::stores::sqlite {

inline constexpr std::string_view kUrlStarts[] = {"sqlite:///"};
inline constexpr StoreExample kExamples[] = {
    {"sqlite:///srv/locks/locks.db", "a local file, for the processes of one host"}};
inline constexpr std::string_view kLeavesOut[] = {"watch-every-change", "survives-failover"};

inline constexpr StoreKind kManifest{
    .name = "sqlite",
    .title = "SQLite",
    .url_starts = kUrlStarts,
    .pattern = "sqlite:///srv/locks.db",
    .examples = kExamples,
    .login = StoreLogin::kNone,
    .leaves_out = kLeavesOut,
    .over_network = false,
    .has_records = true,
    .may_forget = "everything, if the file is in memory (tmpfs)",
};

}  // namespace holdfast::stores::sqlite
