// The shards of a lock service: which one has a name (docs/design/0073-shards.md).
//
// Guarantee: shard_of() never changes. Servers and clients of all versions have to agree, and a
// journal keeps the name of the function.
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "src/base/fnv.h"

namespace holdfast::port {

inline constexpr std::uint32_t kMostShards = 64;
inline constexpr std::string_view kShardHash = "fnv1a-folded";

// One shard of a journal with `of` shards.
struct ShardNumber {
  std::uint32_t number = 0;  // From 0.
  std::uint32_t of = 1;
};

// FNV-1a of 64 bits. Its low bits depend on little of a name, so the high ones are folded in.
constexpr std::uint32_t shard_of(std::string_view name, std::uint32_t shards) {
  if (shards <= 1) return 0;
  const std::uint64_t hash = base::fnv1a(name);
  return static_cast<std::uint32_t>((hash ^ (hash >> 32U)) % shards);
}

}  // namespace holdfast::port
