// FOLDER/journal.id: which journal a folder has, so that a lost, emptied or older database is told
// from a new one (docs/design/0059-journal-folder.md).
//
// Guarantee: write() replaces the file in one step and syncs it, folder included.
// Not guaranteed: that a copy of the same term shows when it is written over both files, nor an
// older one where the file system tells no birth times and gives an inode's number again.
// Thread-safety: none. Blocking: the disk.
// Errors: kCorruptState (not such a file), kPermissionDenied, kUnavailable.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/result.h"
#include "src/server/journal/journal.h"

namespace holdfast::server {

struct FolderIdentity {
  std::string id{};       // The journal's.
  std::string term{};     // The newest that began.
  std::string next{};     // One that may have begun, too; empty: none.
  bool closed = false;    // The database is complete without its log.
  bool restored = false;  // A copy was put back, and its clients may still count on lost grants.
  // While it is restored: the wait as it was at that boot time, which is of the boot of that id.
  port::RestoredWait wait{};
  std::chrono::microseconds noted{};
  std::string boot{};
  std::uint64_t inode = 0;
  std::int64_t birth = 0;  // 0: the file system does not tell.
  // Found by read(): another file of that name was written over this one, as a copy by hand does.
  bool overwritten = false;

  std::string text() const;
  static std::optional<FolderIdentity> parse(std::string_view text);

  // nullopt: the folder has none.
  static Result<std::optional<FolderIdentity>> read(const std::string& folder);
  Result<void> write(const std::string& folder) const;
};

}  // namespace holdfast::server
