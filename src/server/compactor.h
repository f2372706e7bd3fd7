// Bounds the recovery: folds the old snapshot and the batches after it into a new one, in small
// steps between commits, and then trims what that replaced.
//
//   rests ─ reads chunks ─ reads batches ─ writes chunks ─ writes the head ─ trims ─ rests
//
// Guarantee: a crash at any step leaves the old snapshot or the new one valid (rule 47). A step
// takes as long as a commit does, whatever the number of locks.
// Thread-safety: none; the journal's thread. Memory: that of a Fold while it works.
// Errors: of the journal. One that is full, or does not answer, postpones the work. Damaged records
// end it for good (broken()), and the journal then grows until its room is used up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "holdfast/result.h"
#include "src/base/clock.h"
#include "src/server/fold.h"
#include "src/server/journal/journal.h"

namespace holdfast::server {

class Compactor {
 public:
  struct Settings {
    // A snapshot is due after so many bytes of batches, or as many as the last snapshot had.
    std::size_t bytes = std::size_t{4} << 20U;
    std::size_t chunk = std::size_t{64} << 10U;
  };

  // `head` and `last`: what the journal has.
  Compactor(Journal& journal, Settings settings, const SnapshotHead& head, std::uint64_t last)
      : journal_(journal), settings_(settings), old_(head), last_(last) {}

  // After each commit.
  void note_commit(std::uint64_t number, std::size_t bytes);
  // Whether step() has work.
  bool busy() const {
    return phase_ != Phase::kBroken && (phase_ != Phase::kRests || due());
  }
  // The journal has no room for another batch before the next head is written.
  bool must_finish() const;
  // kCommitted: go on. kLater: call again after a while. Others: as Commit says.
  Commit step();
  // Why there will be no snapshot any more.
  const std::optional<Error>& broken() const { return broken_; }
  // A fold is as large as the shard, and the allocator keeps its small pieces. This call is to come
  // now and then; it gives them back to the system, at most once a minute.
  void give_back_memory(base::BootInstant now);

 private:
  enum class Phase {
    kRests,
    kReadsChunks,
    kReadsBatches,
    kWritesChunks,
    kWritesHead,
    kTrims,
    kBroken
  };

  bool due() const;
  Commit read_chunk();
  Commit read_batches();
  Commit write_chunk();
  Commit write_head();
  Commit begin();
  Commit stop_reading(const Error& why);

  Journal& journal_;
  const Settings settings_;
  Phase phase_ = Phase::kTrims;  // A crash may have left something over.
  SnapshotHead old_;
  SnapshotHead next_;
  std::uint64_t last_;     // Committed.
  std::size_t since_ = 0;  // Bytes of batches after the old snapshot.
  std::size_t snapshot_bytes_ = 0;
  std::uint32_t read_ = 0;
  std::optional<Fold> fold_;
  std::optional<std::string> chunk_;  // To be written.
  std::optional<Error> broken_;
  bool keeps_memory_ = false;
  base::BootInstant next_give_back_{};
};

}  // namespace holdfast::server
