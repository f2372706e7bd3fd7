// For operators of a lock service: a journal's folder is looked at, copied, put back; a password is
// hashed.
//
// Guarantee: a server may run on the folder meanwhile, but for restore_journal(). A backup is the
// journal of one instant, and was read back whole before the call returned. It is one file; for a
// journal with several shards a folder with a file for each, of an instant of its own.
// Not guaranteed: that a restored copy knows the newest grants. So the server that starts on it
// grants nothing for 24 h.
// Thread-safety: safe. Blocking: the disk.
// Errors: kInvalidArgument (no journal there, or something where it must not be), kStoreInUse,
// kCorruptState, kVersionMismatch, kPermissionDenied, kUnavailable; kUnsupported: left out of this
// build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "holdfast/export.h"
#include "holdfast/result.h"

namespace holdfast {

// With several shards the numbers are sums.
struct JournalReport {
  std::string id;             // The first shard's.
  std::string term;           // The newest; a backup's ends in "-copy". Empty with several shards.
  std::uint64_t batches = 0;  // The newest one's number.
  std::uint64_t bytes = 0;    // The database has so many, without its log.
  std::size_t locks = 0;      // With a holder or a waiter.
  std::size_t holders = 0;
  std::size_t waiters = 0;
  std::uint32_t shards = 1;
};

// `at`: a folder, or a backup.
HOLDFAST_EXPORT Result<JournalReport> verify_journal(const std::string& at);
HOLDFAST_EXPORT Result<JournalReport> back_up_journal(const std::string& folder,
                                                      const std::string& destination);
// `folder` has no database, or does not exist. Its journal.id, if it is there, stays.
HOLDFAST_EXPORT Result<JournalReport> restore_journal(const std::string& backup,
                                                      const std::string& folder);

// A hash for the users file of a server (ServerOptions::users), by the method that crypt(3) of this
// system prefers. Blocking: tens of milliseconds of a processor.
// Errors: kInvalidArgument (empty, longer than 511 bytes, or with a byte 0), kUnavailable.
HOLDFAST_EXPORT Result<std::string> hash_password(const std::string& password);

}  // namespace holdfast
