// The file systems that may carry a lock file, and the facts about a file on one.
//
// SQLite's locks and shared memory need one kernel that sees all users of the file. So local file
// systems are listed by name, and everything else is refused: also a local one that nobody listed.
#pragma once

#include <cstdint>
#include <string>

#include "holdfast/result.h"

namespace holdfast::stores::sqlite {

struct FileSystem {
  std::string name;  // "ext4", or "type 0x1234" for an unknown one.
  bool allowed = false;
  bool overlay = false;
};

// By the magic number of statfs(2).
FileSystem file_system_of(std::uint64_t magic);
Result<FileSystem> file_system_at(const std::string& directory);

// After so many pages SQLite's log should be folded into its file. On a small disk these are fewer:
// a log that has taken all room leaves none for the file to grow, so it can never be folded again.
int log_pages_at(const std::string& directory);

struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t birth = 0;  // Nanoseconds of the wall clock; 0 where the file system has none.
  std::uint64_t mount = 0;
  bool has_mount = false;
  std::uint32_t links = 0;
  std::uint32_t mode = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

// By path, without opening: closing any descriptor of a database would drop SQLite's locks on it.
// Does not follow a symbolic link. False: errno says why.
bool identify(const std::string& path, FileIdentity& out);

// The folder that an absolute path is in.
std::string folder_of(const std::string& path);

// Makes the folder and those above it, mode 0700.
bool make_folders(const std::string& path);

}  // namespace holdfast::stores::sqlite
