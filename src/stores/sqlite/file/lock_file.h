// Checks the database file. Is it safe for SQLite? Is it still the one at its path? Do all its
// users run in the same boot?
//
// Beside FILE is FILE.use, on which every user keeps a shared lock (flock). It names the boot and
// the file for which the leases inside count. A user that finds another boot or file there must
// lock it exclusively before it voids anything. This proves that no user of the old state is left;
// a different boot id alone proves nothing, because containers have their own.
//
// The last commits are in FILE-wal, which SQLite finds by name, so users of different logs would
// not see each other. Therefore FILE.use also names the FILE-wal and FILE-shm in use, noted by a
// user that was alone. Others enter only if they find exactly these.
//
// Somebody may also overwrite the file with an old copy of itself while nobody uses it. So FILE.use
// also notes the ceilings and the changes that were last reported (docs/design/0019).
//
// Guarantee: while one process holds a LockFile shared, no other voids leases, makes a new file at
// that path or works with another log. moved() tells when the path shows another file, and
// log_moved() when it shows another log.
// Not guaranteed: anything when FILE.use is removed by hand together with FILE.
//
// Thread-safety: moved(), log_moved() and leaving() from any thread; the rest from one.
// Errors: kUnsupported (file system, links, mounts), kPermissionDenied, kStoreInUse, kUnavailable.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "holdfast/result.h"
#include "src/stores/sqlite/file/file_system.h"
#include "src/stores/sqlite/reported_changes.h"

namespace holdfast::stores::sqlite {

// This boot's id, as the kernel says.
std::string read_boot_id();

class LockFile {
 public:
  // The path after symbolic links, its folder made if it was missing.
  static Result<std::string> resolve(const std::string& path);

  // Takes FILE.use. The first user gets it exclusively, adopts the file, and calls settle() and
  // share(). The others get it shared if it names `boot`, the file and its log as they are. Waits
  // for the others to leave when it does not, or with `want_exclusive`.
  static Result<std::shared_ptr<LockFile>> attach(const std::string& path, const std::string& boot,
                                                  bool want_exclusive,
                                                  std::chrono::milliseconds patience);
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

  const std::string& path() const { return path_; }
  bool exclusive() const { return exclusive_; }
  const FileIdentity& identity() const { return identity_; }

  // Another file, or none, is at the path now.
  bool moved() const;
  // Another FILE-wal or FILE-shm, or none.
  bool log_moved() const;

  // Exclusive only: nothing that was committed has gone with a log that somebody removed. False
  // also when FILE.use does not tell.
  bool log_whole() const { return log_whole_; }
  // Exclusive only: FILE.use was written for this file in this boot, so what it notes counts.
  bool named() const { return named_; }
  // Exclusive only, with a connection open: FILE.use names the file and its log as they are now.
  // `voided`: what it noted of other leases counts no longer.
  Result<void> settle(std::uint64_t ceiling, bool voided);
  // Continues as one user among others; false if another process came first, and the caller must
  // attach again.
  bool share();
  // Before a connection is closed. When the last one of all users has folded the log into the file
  // and removed it, that is noted.
  void leaving() noexcept;

  // The highest token ceiling that was noted: a database below it was overwritten by an old copy.
  std::uint64_t noted_ceiling() const;
  void note_ceiling(std::uint64_t ceiling) const;
  // The ceiling in the file itself, without its log, when the log was last folded whole. The
  // contents of that log are nowhere else since.
  std::uint64_t noted_folded() const;
  void note_folded(std::uint64_t ceiling) const;
  ReportedChanges reported() const { return ReportedChanges(use_); }

  // In a forked child: closes without a trace.
  void abandon() noexcept;

  static std::string use_path(const std::string& path) { return path + ".use"; }
  // kUnsupported when the file is not alone: other links, or a mount of its own.
  static Result<void> check_alone(const std::string& path, FileIdentity& identity);

 private:
  LockFile(std::string path, std::string boot) : path_(std::move(path)), boot_(std::move(boot)) {}
  Result<bool> try_attach(bool want_exclusive);
  Result<void> open_use();
  void give_use_to_writers() const;
  bool use_replaced() const;
  std::string expected() const;
  bool names_this_file() const;
  std::uint64_t noted_number(off_t at) const;
  bool note_number(off_t at, std::uint64_t number) const;
  void remove_unused_note();

  // Inodes; zero: there is none.
  struct Log {
    std::uint64_t wal = 0;
    std::uint64_t shm = 0;
    bool operator==(const Log&) const = default;
  };
  Log log_at_path() const;
  std::optional<Log> noted_log() const;
  bool note_log(const Log& log) const;

  std::string path_;
  std::string boot_;
  FileIdentity identity_;
  Log log_;
  bool named_ = false;
  bool log_whole_ = false;
  bool log_in_the_way_ = false;
  bool settled_ = false;  // FILE.use names what is used here.
  bool made_use_ = false;
  std::atomic<bool> connected_{false};  // Somebody has left.
  std::atomic<bool> log_lost_{false};   // And saw that the log had moved.
  bool exclusive_ = false;
  int use_ = -1;
};

}  // namespace holdfast::stores::sqlite
