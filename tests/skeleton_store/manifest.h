// The skeleton's name, and the facts about every such store: see holdfast/stores.h.
#pragma once

#include <string_view>

#include "holdfast/stores.h"

namespace holdfast::stores::skeleton {

inline constexpr std::string_view kUrlStarts[] = {"skeleton://"};
inline constexpr StoreExample kExamples[] = {
    {"skeleton://127.0.0.1:1", "a server that is not there"}};
inline constexpr std::string_view kOpenOptions[] = {"connect_timeout"};
inline constexpr std::string_view kLeavesOut[] = {"fenced",
                                                  "fair",
                                                  "shared",
                                                  "permits",
                                                  "upgrade",
                                                  "list",
                                                  "watch-every-change",
                                                  "values",
                                                  "multi",
                                                  "survives-restart",
                                                  "survives-failover"};

inline constexpr StoreKind kManifest{
    .name = "skeleton",
    .title = "Skeleton",
    .url_starts = kUrlStarts,
    .pattern = "skeleton://HOST",
    .examples = kExamples,
    .login = StoreLogin::kPassword,
    .secret_variable = "HOLDFAST_SKELETON_PASSWORD",
    .open_options = kOpenOptions,
    .leaves_out = kLeavesOut,
};

}  // namespace holdfast::stores::skeleton
