// The fence of a resource as a small file, for scripts and for resources that are files themselves.
//
// Example (examples/fencing.cc#resource):
//   // The highest token that was shown is kept in a file beside the data. While the guard lives,
//   // nobody else is let in: the check and the write are one step.
//   Result<void> write_stock(const std::string& path, int items, const Lease& lease) {
//     auto guard = holdfast::fence::FileGuard::enter(path + ".fence", "stock", lease.token());
//     if (!guard) return guard.error();  // kLost: a newer holder has been here
//     demo::Stock(path).write({.items = items, .newest = lease.token()});
//     return {};
//   }
//
// Guarantee: while the object lives, no other holder, older or newer, enters (shared holders enter
// together). The check and the work after it are one step. The token is on the disk before enter()
// returns; a crash leaves the old record or the new one, never half of one.
// Not guaranteed: anything on a network file system, or when the file is deleted (it must live as
// long as the data that it protects). A damaged record, or another resource's, accepts nobody.
//
// Thread-safety: an object belongs to one thread at a time; enter() may be called by any number.
// Ownership: the file, and PATH.lock beside it, which is locked with flock(2) and never removed.
// Time: waits for the objects of other holders, for at most `wait` (steady clock); without it, for
// ever. Errors: kLost (refused: stop), kTimedOut (another holder was inside; nothing was checked),
// kUnsupported (permits), kInvalidArgument (no token, no resource name, the file is another
// resource's, or not a regular file: then nothing is made beside it), kPermissionDenied,
// kUnavailable (the disk: retry), kCorruptState (not a fence file or damaged: examine it; delete it
// only when no old holder can be left), kVersionMismatch (upgrade).
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "holdfast/export.h"
#include "holdfast/mode.h"
#include "holdfast/result.h"
#include "holdfast/token.h"

namespace holdfast::fence {

class HOLDFAST_EXPORT FileGuard {
 public:
  static Result<FileGuard> enter(const std::string& path, const std::string& resource,
                                 const Token& token, const Mode& mode = Mode::exclusive(),
                                 std::optional<std::chrono::milliseconds> wait = std::nullopt);

  // The highest exclusive token in the file; nullopt: there is no file yet. May be outdated.
  static Result<std::optional<Token>> recorded(const std::string& path,
                                               const std::string& resource);

  // The file of a resource in a folder of such files. Different names have different files,
  // whatever bytes the names contain.
  static std::string path_in(const std::string& folder, const std::string& resource);

  FileGuard(FileGuard&& other) noexcept;
  FileGuard& operator=(FileGuard&& other) noexcept;
  ~FileGuard();

  // The locked descriptor. A process that inherits it keeps others out, too.
  int descriptor() const { return lock_; }

 private:
  explicit FileGuard(int lock) : lock_(lock) {}

  int lock_ = -1;
};

}  // namespace holdfast::fence
