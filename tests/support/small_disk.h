// A file system in memory, so small that it can be filled, over a folder. Needs root.
//
//   [[maybe_unused]] const bool kMounts = support::keep_mounts_private();  // Before any thread.
//   ...
//   SmallDisk disk(folder.path(), 8);
//   disk.fill();       // Whoever writes there now is told that no space is left.
//   disk.make_room();
//
// Ownership: unmounted with the object; and with the process, however that ends, where its mounts
// are private. Thread-safety: one thread at a time.
// Errors: std::runtime_error: it cannot be mounted here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace holdfast::support {

// Later mounts are visible to this process and its children alone, and end with them.
// To be called before there is any thread: one that is there keeps its own view. False: it is not
// allowed; then mounting is not either.
bool keep_mounts_private();

class SmallDisk {
 public:
  // Why there can be none here; nothing: it can.
  static std::optional<std::string> unavailable();

  SmallDisk(std::string folder, std::int64_t megabytes);
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  const std::string& path() const { return folder_; }
  void fill();
  void make_room();

 private:
  std::string ballast() const { return folder_ + "/ballast"; }

  const std::string folder_;
};

// Skips the test loudly where nothing can be mounted.
#define HOLDFAST_NEEDS_SMALL_DISK()                                         \
  if (const auto why_not = ::holdfast::support::SmallDisk::unavailable()) { \
    GTEST_SKIP() << "SKIPPED: no disk of its own: " << *why_not;            \
  }

}  // namespace holdfast::support
