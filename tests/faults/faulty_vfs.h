// SQLite's way to the disk with a fault at the n-th step: for tests that fail every step in turn.
#pragma once

namespace holdfast::testing {

enum class Fault {
  kWriteFails,  // SQLITE_IOERR_WRITE
  kDiskFull,    // SQLITE_FULL
  kTornWrite,   // Half of the bytes arrive, then SQLITE_IOERR_WRITE.
  kSyncFails,   // SQLITE_IOERR_FSYNC
  kLockFails,   // Shared-memory mapping and locking: SQLITE_IOERR_SHMMAP, SQLITE_IOERR_SHMLOCK
};

// Registers the VFS "faulty" (once); it does what the default one does until it is armed.
const char* faulty_vfs();

// The `n`-th step of that kind from now on fails, counting from 1; and all after it, if `for_good`.
void arm(Fault fault, int n, bool for_good);
// True when the fault happened since it was armed.
bool disarm();

}  // namespace holdfast::testing
