// The committed state of a shard, folded together from the records of its journal: a snapshot's
// chunks first, then the batches after it.
//
// It serves twice. The compactor (compactor.h) folds a part of the journal and writes the next
// snapshot. A server that starts (recovery.h) folds what its machine cannot take as it is read.
//
// Guarantee: what a machine's effects did is folded to the machine's own images, but for renewals,
// which are not in the journal. Records that no machine could have written are an error; the
// machine looks at each lock again before it takes it.
//
// Thread-safety: none. Memory: everything that it has read, until it is taken out.
// Errors: kCorruptState, kVersionMismatch, with the record's number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "holdfast/result.h"
#include "src/machine/image.h"
#include "src/server/journal/journal.h"
#include "src/server/kept_texts.h"
#include "src/server/marks.h"
#include "src/server/record.h"
#include "src/server/traces.h"

namespace holdfast::server {

// The part of a journal that is no lock.
struct FoldedRest {
  Marks marks = Marks();
  BreakTraces traces;
  KeptTexts kept;
};

class Fold final : public RecordVisitor {
 public:
  // `bytes`: so many are about to come. Growing a large table by steps would stall a commit.
  explicit Fold(std::size_t bytes = 0) { locks_.reserve(bytes / kBytesPerLock); }

  Result<void> chunk(const SnapshotHead& head, std::uint32_t index, std::string_view bytes);
  Result<void> batch(std::uint64_t number, std::string_view bytes,
                     Checksum checksum = Checksum::kUnseen);

  std::uint64_t last_batch() const { return last_batch_; }
  machine::Instant now() const { return now_; }
  machine::Token floor() const { return floor_; }

  // The next chunk of about `size` bytes, taken out of the fold; nullopt: it is empty. Nothing else
  // may be called any more, but further take_chunk().
  std::optional<std::string> take_chunk(std::size_t size);
  // The next lock, taken out of the fold; nullopt: it has no more.
  std::optional<machine::LockImage> take_lock();
  FoldedRest take_rest() { return std::move(rest_); }

  void on_head(const RecordHead& head) override { reading_ = head.kind; }
  bool on_effect(machine::Effect& effect) override;
  bool on_floor(machine::Token floor) override;
  bool on_mark(std::string client, std::string lock, std::uint64_t issue) override;
  bool on_client_floor(std::string client, std::uint64_t issue) override;
  bool on_lock(LockHead& lock) override;
  bool on_trace(std::string lock, BreakTrace trace) override;
  bool on_kept(std::string key, KeptText text) override;
  bool on_closing() override { return reading_ == RecordKind::kBatch; }
  bool on_end(machine::Instant at) override;

 private:
  struct FoldedLock {
    machine::ModeKind kind{};
    std::uint32_t capacity = 1;
    machine::Token last_token{};
    std::uint64_t next_order = 1;
    std::string value;
    std::map<std::uint64_t, machine::TicketImage> tickets;  // By their order.
    std::map<machine::AcquisitionId, machine::Instant> tombstones;
  };
  using Locks = std::unordered_map<std::string, FoldedLock>;
  static constexpr std::size_t kBytesPerLock = 150;  // About.

  bool add_ticket(const machine::Effect& effect);
  bool end_ticket(FoldedLock& lock, const machine::Effect& effect);
  static machine::TicketImage* find(FoldedLock& lock, const machine::Effect& effect);
  static machine::LockImage image_of(const std::string& name, const FoldedLock& lock);
  static void write_lock(const std::string& name, const FoldedLock& lock, RecordWriter& writer);
  void write_rest(RecordWriter& writer) const;

  Locks locks_;
  FoldedRest rest_;
  machine::Token floor_{};
  machine::Instant now_{};
  std::uint64_t last_batch_ = 0;
  std::uint32_t chunks_ = 0;
  bool rest_taken_ = false;
  RecordKind reading_{};
};

}  // namespace holdfast::server
