// The store for the processes of one host: one SQLite file, nothing to install.
//
//   sqlite:///absolute/path.db
//
// The file and its folder are made when missing. Beside it live FILE-wal and FILE-shm (SQLite's),
// FILE.use (who uses it in which boot) and FILE.wake/ (where waiters are woken).
//
// Guarantee: docs/stores/sqlite.md, and Store::guarantees() as data.
// Thread-safety: as port::Store. Blocking: opening may take seconds when others adopt the file just
// then. The inline calls and renew() end by their deadlines, as far as the disk does.
// Errors: kInvalidArgument (path, unknown option), kUnsupported (file system, links, mounts),
// kPermissionDenied, kStoreInUse, kCorruptState, kVersionMismatch, kUnavailable.
#pragma once

#include <memory>

#include "holdfast/result.h"
#include "src/port/registry.h"
#include "src/stores/sqlite/sqlite_tuning.h"

namespace holdfast::stores {

Result<std::unique_ptr<port::Store>> make_sqlite_store(port::StoreUrl url,
                                                       const port::StoreContext& context);

// The same with time and place injected: for tests and benchmarks.
Result<std::unique_ptr<port::Store>> make_sqlite_store_for_test(const port::StoreUrl& url,
                                                                const port::StoreContext& context,
                                                                SqliteTuning tuning);

}  // namespace holdfast::stores
