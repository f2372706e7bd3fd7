// The worker numbers of one host, kept in a file: a process takes a free one, and gives it back by
// ending.
//
// Guarantee: no two ids of a file are the same, whatever its processes do: kill, pause, fork,
// restart, with a wall clock that goes back meanwhile. A number belongs to one process at a time (a
// lock on its row, which the kernel frees). No id with a time T is given before a bound above T is
// on the disk, and the next process begins above that bound.
// Not guaranteed: anything between two files. Give each host a range of its own. A file that is
// restored in place from a backup, or a virtual machine that goes on twice, may repeat ids: neither
// can be seen here. A file that was copied or moved to another host is refused.
//
// Thread-safety: all calls. Blocking: the disk. Ownership: the generator keeps the number until it
// ends.
// Errors: with each call; kPermissionDenied and kUnavailable for the file in all.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/ids/layout.h"
#include "holdfast/ids/snowflake.h"
#include "holdfast/result.h"

namespace holdfast::ids {

// A file's own, for good: another layout or policy needs another file.
struct HostWorkersSpec {
  Layout layout;
  ClockPolicy policy{};
  std::uint64_t first = 0;  // The numbers of this host.
  std::uint64_t last = 0;
};

struct HostWorker {
  std::uint64_t worker = 0;
  bool held = false;
  std::int64_t pid = 0;               // Its holder, or the last one; 0: nobody yet.
  std::chrono::milliseconds since{};  // It was taken then, in time since 1970.
  std::chrono::milliseconds reserved_until{};  // The next holder begins there.
  std::string trouble{};  // Why nothing is known of it; empty: it is known.
};

class HOLDFAST_EXPORT HostWorkers {
 public:
  // Makes the file. At most 4,096 workers.
  // Errors: kStoreInUse: the file is there. kInvalidArgument: a range outside the layout, or a
  // policy that does not fit it.
  static Result<void> create(const std::string& path, const HostWorkersSpec& spec);

  // Errors: kInvalidArgument: there is no file (make it by create()). kCorruptState: the file is
  // damaged, or was copied or moved. kVersionMismatch: a later version's.
  static Result<HostWorkers> open(const std::string& path);

  const HostWorkersSpec& spec() const { return spec_; }
  // A random name of the file, for logs.
  const std::string& incarnation() const { return incarnation_; }

  // A generator with the first free number. One whose reserved time lies too far ahead of the clock
  // is left out. A test may give a clock that it moves, instead of the machine's: it must outlive
  // the generator, which reads it from a thread of its own, too.
  // Errors: kQueueFull: every number is taken, or reserved too far ahead. kCorruptState: the first
  // free number's row cannot be read.
  Result<std::unique_ptr<Snowflake>> take(IdClock* clock = nullptr) const;

  // Tells of each number.
  Result<std::vector<HostWorker>> workers() const;

 private:
  HostWorkers(std::string path, HostWorkersSpec spec, std::string incarnation)
      : path_(std::move(path)), spec_(std::move(spec)), incarnation_(std::move(incarnation)) {}

  std::string path_;
  HostWorkersSpec spec_;
  std::string incarnation_;
};

}  // namespace holdfast::ids
