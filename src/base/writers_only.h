// Modes of files that processes lock (flock, POSIX locks). A user who may only read such a file can
// hold a lock on it, and so shut out its writers. So whoever may not write it may not read it.
//
// Thread-safety: safe.
#pragma once

#include <sys/types.h>

namespace holdfast::base {

// The permission bits of `mode`, without those to read where writing is not allowed; the owner's
// stay.
constexpr mode_t writers_only(mode_t mode) {
  const mode_t others = ((mode & 0020U) != 0 ? 0060U : 0U) | ((mode & 0002U) != 0 ? 0006U : 0U);
  return (mode & 0600U) | others;
}

// For a new file, by the process's umask; the owner only where that cannot be found out.
mode_t new_file_for_writers();

// Opens the file to read and write, never through a symbolic link. One that is made here is locked
// by nobody else before its mode is set. -1: errno says why; EEXIST: `exclusive`, and it is there.
int open_for_writers(const char* path, bool exclusive);

}  // namespace holdfast::base
