// Notes what this process writes, syncs and links, so that a test can tell what a power failure
// would leave. Functions of the test's program stand in front of those of libc, for all libraries.
//
//   DiskLog disk;
//   do_it();
//   EXPECT_EQ(disk.lines(), ...);  // "write /d/f.new", "sync /d/f.new", "link /d/f", "sync /d"
//
// Guarantee: the lines have the order of the calls. Only calls that succeeded are noted.
// Not guaranteed: anything about writes through a mapped file, or by io_uring.
// Thread-safety: safe. Ownership: one object at a time.
#pragma once

#include <string>
#include <vector>

namespace holdfast::support {

class DiskLog {
 public:
  DiskLog();
  ~DiskLog();
  DiskLog(const DiskLog&) = delete;
  DiskLog& operator=(const DiskLog&) = delete;

  // "write", "sync" or "link" and a path: that of the open file, or the new name.
  std::vector<std::string> lines() const;
  // Only the lines about this path.
  std::vector<std::string> lines_of(const std::string& path) const;
  void clear();

  // From now on fsync() and fdatasync() fail with EIO, and sync nothing.
  void fail_syncs(bool fail);
};

}  // namespace holdfast::support
