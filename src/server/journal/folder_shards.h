// The shards of a journal in a folder (docs/design/0073-shards.md): each has a journal of its own.
//
//   FOLDER/journal.db           the only shard, or the first of several
//   FOLDER/shard-K/journal.db   the other ones, from 1
//
// With several shards these databases have format 2, and name their shard, the number of shards,
// the hash function, and the first one's id. So a server of before refuses them.
//
// Guarantee: the first one is made last. Where it is, no other one is missing, unless somebody took
// it away.
// Thread-safety: safe. Blocking: the disk.
// Errors: kInvalidArgument (another number than was wished, or the folder of one shard),
// kCorruptState (a shard is missing, or of another journal), and SqliteJournal's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "holdfast/result.h"

namespace holdfast::server {

std::string shard_folder(const std::string& folder, std::uint32_t shard);

// Looks at all shards. A server may run meanwhile. nullopt: no journal has begun there.
Result<std::optional<std::uint32_t>> count_shards(const std::string& folder);
// `wanted`: a new journal gets so many; 0: one. Nothing is written.
Result<std::uint32_t> fix_folder_shards(const std::string& folder, std::uint32_t wanted);

// The error for the database at `path`, which is missing or empty. `why`: that shows it.
Error lost_shard(const std::string& path, const std::string& what, const std::string& why,
                 const std::string& folder);

}  // namespace holdfast::server
