// Turns the nodes in a lock's folder into what the engine of contenders wants.
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "src/contend/backend.h"
#include "src/stores/zookeeper/link.h"
#include "src/stores/zookeeper/nodes.h"

namespace holdfast::stores::zookeeper {

inline constexpr char kValueNode[] = "v";  // In a lock's folder, beside its contenders.

// We make folders empty; a later version may make one with its record in it.
std::uint64_t record_rev(const NodeStat& stat);
contend::Listing listing_from(const Reply& reply, const std::string& path, Recipe recipe);
contend::Unknown unknown_in(const Reply& reply, const std::string& path, Recipe recipe);
contend::Details details_from(const std::string& text, const std::string& path, Recipe recipe);

}  // namespace holdfast::stores::zookeeper
