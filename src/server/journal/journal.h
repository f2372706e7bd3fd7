// The lock service's journals: see src/port/service/journal.h for what one is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "holdfast/result.h"
#include "src/port/service/journal.h"
#include "src/port/service/members.h"
#include "src/port/service/shards.h"

namespace holdfast::server {

using port::Commit;
using port::DiskSpace;
using port::Journal;
using port::JournalAtOpen;
using port::SnapshotHead;

// `sqlite:DIR`, `memory:`, or `etcd://HOST,HOST,HOST/PREFIX` in a build with that store.
// SQLite's is not opened or created yet; etcd's has asked a server.
// Errors: kInvalidArgument (another form), kUnsupported (a journal that this build lacks),
// kUnavailable, kPermissionDenied.
Result<std::unique_ptr<Journal>> make_journal(const std::string& url, port::ShardNumber shard = {});
// The servers on a shared journal. No server of its store is asked. Errors: the same.
Result<std::unique_ptr<port::Members>> make_members(const std::string& url,
                                                    std::uint32_t shards = 1);
// `error` with the journal's place and the next step, unless the message begins with one.
inline Error at_journal(const std::string& place, const Error& error) {
  if (error.message().starts_with("journal ")) return error;
  const char* const next = error.code() == Errc::kCorruptState ? ". Restore a backup" : "";
  return {error.code(), "journal " + place + ": " + error.message() + next};
}
// How many shards the journal has. A new one gets `wanted`, and keeps that number; 0: as many as
// are usual in its store. A folder gets them when the first one is opened.
// Errors: the same; kInvalidArgument: it has another number; kCorruptState: a shard is missing.
Result<std::uint32_t> fix_shards(const std::string& url, std::uint32_t wanted);

}  // namespace holdfast::server
