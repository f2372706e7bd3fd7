// The journal port of the lock service: where a shard's committed changes live, and all that a
// shard asks of it.
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
// A journal that several servers share has one leader at a time, which alone can write. Each leader
// has an object of its own, which is of no more use once it has lost the lead.
// Not guaranteed: that a leader learns of its end before leads_until().
//
// Thread-safety: one thread at a time. Besides, any thread may call leader(), leads_until(),
// answers(), copies() and interrupt(), and one other thread keep_leading(). Blocking: every other
// call but the constructor waits for the disk or the network.
// Errors: kCorruptState, kVersionMismatch, kStoreInUse, kPermissionDenied,
// kUnsupported, kUnavailable.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "holdfast/result.h"
#include "src/base/clock.h"

namespace holdfast::port {

enum class Commit : std::uint8_t {
  kCommitted,  // It survives a crash of the process and of the host.
  kLater,      // No room, or a busy file. The same call may be made again, and tells what became of
               // the first one. If it is not made, the outcome is unknown.
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
  bool known = false;    // An earlier start has found that.
  // Since that was found, so much time has passed, at least.
  std::chrono::microseconds waited{};
  // An earlier leader may be paused, and then answers renewals for so long from now on.
  std::chrono::microseconds old_leader{};
};

// The wait of a restored copy, which a journal keeps until settle(): restarts do not begin it anew.
// Time during which no server noted it may be missing.
struct RestoredWait {
  static constexpr std::chrono::hours kAtLeast{24};  // It takes so long.
  static constexpr std::chrono::minutes kNoteEvery{1};

  std::chrono::milliseconds waited{};
  std::int64_t since = 0;  // Seconds of the wall clock at its begin.

  // When the wall clock says that this wait should be over, the note may itself be of a copy, which
  // was made during an earlier wait. Then the wait begins anew. So it does when the clock is wrong.
  // False: it begins.
  bool goes_on(std::int64_t wall) {
    const std::int64_t most = std::chrono::seconds(kAtLeast).count();
    if (since > 0 && wall >= since && wall - since < most) return true;
    *this = {{}, wall};
    return false;
  }
};

// Bytes; all zero: there is no disk of its own.
struct DiskSpace {
  std::uint64_t journal = 0;  // The journal uses so many.
  std::uint64_t free = 0;     // For this process.
  std::uint64_t size = 0;     // The whole disk, without what is kept for root.
  const char* what = "the disk of the journal";

  // How full it is.
  unsigned percent() const {
    if (size == 0) return 0;
    const auto used = static_cast<double>(size - std::min(free, size));
    return static_cast<unsigned>(100 * used / static_cast<double>(size));
  }
  static constexpr unsigned kNearlyFull = 80;  // From so many percent on operators are warned.
};

class Journal {
 public:
  virtual ~Journal() = default;

  // Whether several servers may share it, of which one leads. Only then are these of use.
  virtual bool is_shared() const noexcept { return false; }
  // Waits until this process leads, or until that time, or until interrupt(). False: another one
  // leads, or nobody yet. It comes before open(), and may be called again. `told`: the address of
  // this process, which the others tell.
  virtual Result<bool> lead(const std::string& told, base::BootInstant until) {
    static_cast<void>(told);
    static_cast<void>(until);
    return true;
  }
  // Ends a lead() that waits, and a write that is about to be tried again.
  virtual void interrupt() noexcept {}
  // The leader's address; empty: not known.
  virtual std::string leader() const { return {}; }
  // From that boot time on, another process may lead. It moves on with each keep_leading().
  virtual base::BootInstant leads_until() const noexcept { return base::BootInstant::max(); }
  // False: the last proof that this process may write is older than it should be, because the store
  // has not answered since. Operators are told so before leads_until().
  virtual bool answers() const noexcept { return true; }
  // Called each kKeepLeading by the loop that answers clients, so that a loop that stands still
  // loses the lead. It does not block.
  virtual void keep_leading() {}
  static constexpr std::chrono::milliseconds kKeepLeading{100};
  // Whether a renewal is told only after a confirm() or commit() that began after it was read, as
  // long as those are answered within kSilence. Afterwards leads_until() alone counts.
  virtual bool confirms_renewals() const noexcept { return false; }
  static constexpr std::chrono::milliseconds kSilence{300};

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
  // A commit of nothing: from its begin to its end no other process could write.
  virtual Commit confirm() { return look(); }

  virtual DiskSpace space() const { return {}; }
  // Each commit that was answered kCommitted is on so many servers of the store beside the first
  // one. Zero: on none, or the number is not known.
  virtual std::size_t copies() const noexcept { return 0; }

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

}  // namespace holdfast::port
