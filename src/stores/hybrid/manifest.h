// The hybrid store's name, and the facts about every one: see holdfast/stores.h.
//
// The manifest speaks of an arbiter whose leases end with their client (ZooKeeper, etcd, Consul). A
// running client's guarantees() follow its own arbiter.
#pragma once

#include <string_view>

#include "holdfast/stores.h"

namespace holdfast::stores::hybrid {

inline constexpr std::string_view kUrlStarts[] = {"hybrid:"};
inline constexpr StoreExample kExamples[] = {
    {"hybrid:?filter=redis%3A%2F%2Flocks.example&arbiter=zookeeper%3A%2F%2Fz1,z2,z3",
     "a Redis in front of a ZooKeeper"}};
inline constexpr std::string_view kOpenOptions[] = {"patience", "recheck", "filter_timeout",
                                                    "filter_lease"};
inline constexpr std::string_view kLeavesOut[] = {"fair",  "shared",  "upgrade",
                                                  "multi", "permits", "watch-every-change"};

inline constexpr StoreKind kManifest{
    .name = "hybrid",
    .title = "hybrid",
    .url_starts = kUrlStarts,
    .pattern = "hybrid:?filter=URL&arbiter=URL",
    .examples = kExamples,
    .open_options = kOpenOptions,
    .leaves_out = kLeavesOut,
    .bound_to_client = true,
};

}  // namespace holdfast::stores::hybrid
