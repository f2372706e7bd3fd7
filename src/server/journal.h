// The journal port: where a shard's committed changes live, and all that a shard asks of it.
//
// A journal is a row of batches, numbered without a gap, and at most one snapshot that stands for
// all batches up to its number. One thread commits, one batch at a time; a second batch under way
// would overtake the first (measured on etcd) and brings no speed.
//
// Guarantee: a batch whose commit() answered kCommitted is there for every later last() and
// batch(). After kRefused and kLater it is not, unless it is committed again. A journal has one
// writer: once another one has opened it, commit() answers kRefused.
// Not guaranteed: anything about a batch after kUnknown, but that it is read back whole or not at
// all.
//
// Thread-safety: one thread at a time. Blocking: every call but the constructor waits for the disk
// or the network.
// Errors: kCorruptState, kVersionMismatch, kStoreInUse, kPermissionDenied,
// kUnsupported, kUnavailable.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "holdfast/result.h"

namespace holdfast::server {

enum class Commit : std::uint8_t {
  kCommitted,  // It survives a crash of the process and of the host.
  kLater,      // Not applied: no room, or a busy file. The same call may be made again.
  kRefused,    // Another writer owns the journal, or its files were moved. Not applied.
  kUnknown,    // It may or may not be applied. No further call to this journal is allowed.
};

// One snapshot: `count` chunks under the number of the last batch that it stands for.
struct SnapshotHead {
  std::uint64_t batch = 0;
  std::uint32_t count = 0;
  std::uint64_t checksum = 0;  // Over all chunks, in their order.
};

// A journal is this when open() has returned.
struct JournalAtOpen {
  bool began = false;    // A new journal.
  std::string restored;  // Why it is a copy that was put back; empty: it is not.
};

// Bytes; all zero: there is no disk of its own.
struct DiskSpace {
  std::uint64_t journal = 0;  // The journal uses so many.
  std::uint64_t free = 0;     // For this process.
  std::uint64_t size = 0;     // The whole disk, without what is kept for root.
};

class Journal {
 public:
  virtual ~Journal() = default;

  // Takes the journal over: from here on no earlier writer can commit. Called once, first.
  virtual Result<void> open() = 0;

  // The journal's own id, and the term: the process that may write. Each open() begins a new term,
  // whose name begins with a greater number ("7-3fa2"). Clients see both.
  virtual std::string id() const = 0;
  virtual std::string term() const = 0;

  virtual JournalAtOpen opening() const { return {}; }
  // After JournalAtOpen::restored: no client counts on a forgotten grant any more. Until this is
  // called, each open() finds the journal restored.
  virtual Result<void> settle() { return {}; }
  // Between commits: whether this process may still write. kRefused and kUnknown as commit()'s.
  virtual Commit look() { return Commit::kCommitted; }

  virtual DiskSpace space() const { return {}; }

  // The valid snapshot's head; all zero: there is none.
  virtual Result<SnapshotHead> head() = 0;
  virtual Result<std::string> chunk(const SnapshotHead& head, std::uint32_t index) = 0;
  // The newest batch's number; the snapshot's, when none came after it.
  virtual Result<std::uint64_t> last() = 0;
  // One between these two. kCorruptState: it is not there.
  virtual Result<std::string> batch(std::uint64_t number) = 0;

  // Durable when it answers kCommitted. `number` is one above the last.
  virtual Commit commit(std::uint64_t number, std::string_view bytes) = 0;

  // How many batches may follow the snapshot; 0: the journal keeps nothing. A commit beyond it
  // answers kLater.
  virtual std::uint64_t room() const = 0;

  // A snapshot becomes valid by its head alone. Chunks without a head are ignored. After a head was
  // written, each trim() drops a bounded part of what it replaced; false: nothing is left to drop.
  virtual Commit put_chunk(std::uint64_t batch, std::uint32_t index, std::string_view bytes) = 0;
  virtual Commit put_head(const SnapshotHead& head) = 0;
  virtual Result<bool> trim() = 0;

  // For people: the reason of the last answer that was not kCommitted.
  virtual std::string reason() const = 0;
  // Where the data lies, for messages.
  virtual std::string place() const = 0;
};

// `sqlite:DIR` or `memory:`. Nothing is opened or created yet.
// Errors: kInvalidArgument (another form), kUnsupported (a journal that this build lacks).
Result<std::unique_ptr<Journal>> make_journal(const std::string& url);

}  // namespace holdfast::server
