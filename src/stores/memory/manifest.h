// The memory store's name, and the facts about every one: see holdfast/stores.h.
#pragma once

#include <string_view>

#include "holdfast/stores.h"

namespace holdfast::stores::memory {

inline constexpr std::string_view kUrlStarts[] = {"memory:"};
inline constexpr StoreExample kExamples[] = {
    {"memory:", "this process only: for 'holdfast bench'"}};
inline constexpr std::string_view kLeavesOut[] = {"survives-restart", "survives-failover"};

inline constexpr StoreKind kManifest{
    .name = "memory",
    .title = "memory of one process",
    .url_starts = kUrlStarts,
    .pattern = "memory:",
    .examples = kExamples,
    .login = StoreLogin::kNone,
    .leaves_out = kLeavesOut,
    .shared_by_processes = false,
    .over_network = false,
    .has_records = true,
    .may_forget = "everything, when the process ends",
};

}  // namespace holdfast::stores::memory
