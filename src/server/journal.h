// The journal port: where a shard's committed changes live, and all that a shard asks of it.
//
// A journal is a row of batches, numbered without a gap, and at most one snapshot that stands for
// all batches up to its number. One thread commits, one batch at a time; a second batch under way
// would overtake the first (measured on etcd) and brings no speed.
//
// Guarantee: a batch whose commit() answered kCommitted is read back by every later batch(). After
// kRefused and kFull it never is, unless it is committed again. A journal has one writer: once
// another one has opened it, commit() answers kRefused.
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
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/result.h"

namespace holdfast::server {

enum class Commit : std::uint8_t {
  kCommitted,  // It survives a crash of the process and of the host.
  kFull,       // No room. Not applied; the same call may be made again.
  kRefused,    // Another writer owns the journal, or its files were moved. Not applied.
  kUnknown,    // It may or may not be applied. No further call to this journal is allowed.
};

// One snapshot: `count` chunks under the number of the last batch that it stands for.
struct SnapshotHead {
  std::uint64_t batch = 0;
  std::uint32_t count = 0;
  std::uint64_t checksum = 0;  // Over all chunks, in their order.
};

class Journal {
 public:
  virtual ~Journal() = default;

  // Takes the journal over: from here on no earlier writer can commit. Called once, first.
  virtual Result<void> open() = 0;

  // The journal's own id, and the term: which process may write. Each open() draws a new term.
  // Clients see both.
  virtual std::string id() const = 0;
  virtual std::string term() const = 0;

  // The valid snapshot's head; all zero: there is none.
  virtual Result<SnapshotHead> head() = 0;
  virtual Result<std::string> chunk(const SnapshotHead& head, std::uint32_t index) = 0;
  // nullopt: there is no such batch (yet).
  virtual Result<std::optional<std::string>> batch(std::uint64_t number) = 0;

  // Durable when it answers kCommitted. `number` is one above the last.
  virtual Commit commit(std::uint64_t number, std::string_view bytes) = 0;

  // How many batches may follow the snapshot. A commit beyond it answers kFull.
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
