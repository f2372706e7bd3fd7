// The lock service's journals: see src/port/journal.h for what one is.
#pragma once

#include <memory>
#include <string>

#include "holdfast/result.h"
#include "src/port/journal.h"
#include "src/port/members.h"

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
Result<std::unique_ptr<Journal>> make_journal(const std::string& url);
// The servers on a shared journal. No server of its store is asked. Errors: the same.
Result<std::unique_ptr<port::Members>> make_members(const std::string& url);

}  // namespace holdfast::server
