// Reads a snapshot, chunk by chunk and ahead of its caller. The chunks of a large one are read,
// checked and decoded by a thread of its own, while the caller gives the locks to a machine.
//
// Guarantee: a chunk that is damaged, is missing or lies at another place is an error, and so are
// chunks whose common checksum is not that of the head. The locks that are told before the
// error may be wrong as a whole: the caller has to throw them away.
// Not guaranteed: that a lock makes sense, or comes once. The machine sees to that.
//
// Thread-safety: none. While this lives, the journal and the fold are its own.
// Memory: kAhead chunks. Errors: the journal's; kCorruptState and kVersionMismatch with the
// record's number. After an error nothing more may be asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "holdfast/result.h"
#include "src/base/fnv.h"
#include "src/base/local_mutex.h"
#include "src/machine/image.h"
#include "src/server/fold.h"
#include "src/server/journal/journal.h"
#include "src/server/record.h"

namespace holdfast::server {

using LockNames = std::unordered_set<std::string>;

class SnapshotReader final : private RecordVisitor {
 public:
  static constexpr std::uint32_t kAhead = 8;
  // The caller reads a smaller one itself, because a thread would take longer to begin.
  static constexpr std::uint32_t kLarge = 128;

  // One chunk. Its memory is used again when it is given back.
  class Part {
   public:
    // The locks that are not the fold's.
    std::span<machine::LockImage> locks() { return {images_.data(), count_}; }
    // The newest of all chunks so far.
    machine::Instant now{};
    machine::Token floor{};

   private:
    friend class SnapshotReader;
    std::vector<machine::LockImage> images_;
    std::size_t count_ = 0;
  };

  // `fold` gets the locks in `names`, and everything that is no lock.
  SnapshotReader(Journal& journal, const SnapshotHead& head, Fold& fold, const LockNames& names);
  ~SnapshotReader() override;
  SnapshotReader(const SnapshotReader&) = delete;
  SnapshotReader& operator=(const SnapshotReader&) = delete;

  // Waits for the next chunk; there are as many as the head says. `used`: an earlier one.
  Result<Part> next(Part used) HOLDFAST_EXCLUDES(mutex_);

 private:
  void work() HOLDFAST_EXCLUDES(mutex_);
  Result<Part> read(Part used);

  void on_head(const RecordHead& head) override { fold_.on_head(head); }
  bool on_lock(LockHead& lock) override;
  bool on_effect(machine::Effect& effect) override;
  bool on_floor(machine::Token floor) override { return fold_.on_floor(floor); }
  bool on_mark(std::string client, std::string lock, std::uint64_t issue) override {
    return fold_.on_mark(std::move(client), std::move(lock), issue);
  }
  bool on_client_floor(std::string client, std::uint64_t issue) override {
    return fold_.on_client_floor(std::move(client), issue);
  }
  bool on_trace(std::string lock, BreakTrace trace) override {
    return fold_.on_trace(std::move(lock), std::move(trace));
  }
  bool on_kept(std::string key, KeptText text) override {
    return fold_.on_kept(std::move(key), std::move(text));
  }
  bool on_closing() override { return fold_.on_closing(); }
  bool on_end(machine::Instant at) override { return fold_.on_end(at); }

  const SnapshotHead head_;

  // Only the thread that reads uses these: the caller's or thread_.
  Journal& journal_;
  Fold& fold_;
  const LockNames& names_;
  Part part_;
  bool is_open_ = false;  // The last image of part_ may get more tickets.
  std::uint32_t read_ = 0;
  std::uint64_t sum_ = base::kFnvStart;

  base::LocalMutex mutex_;
  base::LocalCondition changed_;
  std::deque<Result<Part>> ahead_ HOLDFAST_GUARDED_BY(mutex_);
  std::vector<Part> used_ HOLDFAST_GUARDED_BY(mutex_);
  bool stops_ HOLDFAST_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Last: it uses the others.
};

}  // namespace holdfast::server
