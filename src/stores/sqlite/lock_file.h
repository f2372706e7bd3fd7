// The database file as a thing of one host: is it a file that SQLite can be trusted with, is it
// still the one at its path, and does everybody who uses it live in the same boot.
//
// Beside FILE stands FILE.use, which every user keeps locked shared (flock). It says for which boot
// and which file the leases inside count. Whoever finds it saying something else must have it
// exclusively before anything is voided; that proves that no user of the old state is left, where a
// different boot id alone proves nothing (containers have their own).
//
// Guarantee: while one process holds a LockFile shared, no other voids leases or makes a new file
// at that path; moved() tells when the path shows another file.
// Not guaranteed: anything when FILE.use is removed by hand together with FILE.
//
// Thread-safety: moved() from any thread; the rest from one.
// Errors: kUnsupported (file system, links, mounts), kPermissionDenied, kStoreInUse, kUnavailable.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "holdfast/result.h"
#include "src/stores/sqlite/file_system.h"

namespace holdfast::stores::sqlite {

// Of this boot, as the kernel says.
std::string read_boot_id();

class LockFile {
 public:
  // The path after symbolic links, its folder made if it was missing.
  static Result<std::string> resolve(const std::string& path);

  // Takes FILE.use: shared when it names `boot` and the file as it is, otherwise exclusively (then
  // the caller adopts the file, calls settle() and attaches anew). `want_exclusive`: in any case.
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

  // Exclusive only: FILE.use names the file as it is now.
  Result<void> settle(std::uint64_t ceiling);

  // The highest token ceiling that was noted: a database below it was overwritten by an old copy.
  std::uint64_t noted_ceiling() const;
  void note_ceiling(std::uint64_t ceiling) const;

  // In a forked child: closes without a trace.
  void abandon() noexcept;

  static std::string use_path(const std::string& path) { return path + ".use"; }
  // kUnsupported when the file is not alone: other links, or a mount of its own.
  static Result<void> check_alone(const std::string& path, FileIdentity& identity);

 private:
  LockFile(std::string path, std::string boot) : path_(std::move(path)), boot_(std::move(boot)) {}
  Result<bool> try_attach(bool want_exclusive);
  Result<void> open_use();
  bool use_replaced() const;
  std::string expected() const;

  std::string path_;
  std::string boot_;
  FileIdentity identity_;
  bool exists_ = false;
  bool exclusive_ = false;
  int use_ = -1;
};

}  // namespace holdfast::stores::sqlite
