#include "tests/faults/faulty_vfs.h"

#include <sqlite3.h>

#include <atomic>
#include <mutex>

namespace holdfast::testing {
namespace {

std::mutex arming;
bool armed = false;
bool fired = false;
bool for_good_now = false;
Fault fault_now{};
int steps_left = 0;

// Whether this step of the kind is to fail.
bool strikes(Fault kind) {
  const std::lock_guard<std::mutex> lock(arming);
  if (!armed || kind != fault_now) return false;
  if (--steps_left > 0 || (steps_left < 0 && !for_good_now)) return false;
  fired = true;
  return true;
}

struct File {
  sqlite3_file base;
  sqlite3_file* real;  // Behind this struct, in the same memory.
};

sqlite3_vfs* default_vfs() {
  static sqlite3_vfs* const found = sqlite3_vfs_find(nullptr);
  return found;
}

sqlite3_file* real(sqlite3_file* file) { return reinterpret_cast<File*>(file)->real; }
const sqlite3_io_methods* methods(sqlite3_file* file) { return real(file)->pMethods; }

int close_file(sqlite3_file* f) { return methods(f)->xClose(real(f)); }
int read_file(sqlite3_file* f, void* to, int size, sqlite3_int64 at) {
  return methods(f)->xRead(real(f), to, size, at);
}
int write_file(sqlite3_file* f, const void* from, int size, sqlite3_int64 at) {
  if (strikes(Fault::kDiskFull)) return SQLITE_FULL;
  if (strikes(Fault::kWriteFails)) return SQLITE_IOERR_WRITE;
  if (strikes(Fault::kTornWrite)) {
    methods(f)->xWrite(real(f), from, size / 2, at);
    return SQLITE_IOERR_WRITE;
  }
  return methods(f)->xWrite(real(f), from, size, at);
}
int truncate_file(sqlite3_file* f, sqlite3_int64 size) {
  return methods(f)->xTruncate(real(f), size);
}
int sync_file(sqlite3_file* f, int flags) {
  if (strikes(Fault::kSyncFails)) return SQLITE_IOERR_FSYNC;
  return methods(f)->xSync(real(f), flags);
}
int size_file(sqlite3_file* f, sqlite3_int64* size) { return methods(f)->xFileSize(real(f), size); }
int lock_file(sqlite3_file* f, int level) { return methods(f)->xLock(real(f), level); }
int unlock_file(sqlite3_file* f, int level) { return methods(f)->xUnlock(real(f), level); }
int check_file(sqlite3_file* f, int* out) { return methods(f)->xCheckReservedLock(real(f), out); }
int control_file(sqlite3_file* f, int op, void* arg) {
  return methods(f)->xFileControl(real(f), op, arg);
}
int sector_file(sqlite3_file* f) { return methods(f)->xSectorSize(real(f)); }
int device_file(sqlite3_file* f) { return methods(f)->xDeviceCharacteristics(real(f)); }
int shm_map(sqlite3_file* f, int page, int size, int extend, void volatile** out) {
  if (strikes(Fault::kLockFails)) return SQLITE_IOERR_SHMMAP;
  return methods(f)->xShmMap(real(f), page, size, extend, out);
}
int shm_lock(sqlite3_file* f, int offset, int n, int flags) {
  // Unlocking cannot fail.
  if ((flags & SQLITE_SHM_LOCK) != 0 && strikes(Fault::kLockFails)) return SQLITE_IOERR_SHMLOCK;
  return methods(f)->xShmLock(real(f), offset, n, flags);
}
void shm_barrier(sqlite3_file* f) { methods(f)->xShmBarrier(real(f)); }
int shm_unmap(sqlite3_file* f, int remove) { return methods(f)->xShmUnmap(real(f), remove); }

const sqlite3_io_methods kMethods = {
    2,         close_file,  read_file,  write_file,   truncate_file, sync_file,   size_file,
    lock_file, unlock_file, check_file, control_file, sector_file,   device_file, shm_map,
    shm_lock,  shm_barrier, shm_unmap,  nullptr,      nullptr};

int open_file(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out) {
  auto* ours = reinterpret_cast<File*>(file);
  ours->real = reinterpret_cast<sqlite3_file*>(ours + 1);
  const int code = default_vfs()->xOpen(default_vfs(), name, ours->real, flags, out);
  ours->base.pMethods = ours->real->pMethods != nullptr ? &kMethods : nullptr;
  return code;
}

}  // namespace

const char* faulty_vfs() {
  static sqlite3_vfs vfs = [] {
    sqlite3_vfs made = *default_vfs();
    made.szOsFile += static_cast<int>(sizeof(File));
    made.zName = "faulty";
    made.xOpen = open_file;
    return made;
  }();
  static const int registered = sqlite3_vfs_register(&vfs, /*makeDflt=*/0);
  return registered == SQLITE_OK ? "faulty" : nullptr;
}

void arm(Fault fault, int n, bool for_good) {
  const std::lock_guard<std::mutex> lock(arming);
  armed = true;
  fired = false;
  for_good_now = for_good;
  fault_now = fault;
  steps_left = n;
}

bool disarm() {
  const std::lock_guard<std::mutex> lock(arming);
  armed = false;
  return fired;
}

}  // namespace holdfast::testing
