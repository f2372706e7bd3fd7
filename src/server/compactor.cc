#include "src/server/compactor.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <chrono>
#include <utility>

#include "src/base/fnv.h"

namespace holdfast::server {
namespace {

constexpr std::chrono::seconds kBetweenGiveBacks{60};

}  // namespace

void Compactor::note_commit(std::uint64_t number, std::size_t bytes) {
  last_ = number;
  since_ += bytes;
}

bool Compactor::due() const {
  if (phase_ == Phase::kBroken || journal_.room() == 0) return false;
  return since_ > std::max(settings_.bytes, snapshot_bytes_) ||
         last_ - old_.batch > journal_.room() / 2;
}

bool Compactor::must_finish() const {
  return phase_ != Phase::kBroken && journal_.room() > 0 && last_ - old_.batch >= journal_.room();
}

Commit Compactor::step() {
  switch (phase_) {
    case Phase::kRests: return due() ? begin() : Commit::kCommitted;
    case Phase::kReadsChunks: return read_chunk();
    case Phase::kReadsBatches: return read_batches();
    case Phase::kWritesChunks: return write_chunk();
    case Phase::kWritesHead: return write_head();
    case Phase::kTrims: {
      const auto more = journal_.trim();
      if (!more) return Commit::kLater;
      if (!*more) phase_ = Phase::kRests;
      return Commit::kCommitted;
    }
    case Phase::kBroken: break;
  }
  return Commit::kCommitted;
}

Commit Compactor::begin() {
  fold_.emplace(since_ + snapshot_bytes_);
  next_ = {};
  next_.batch = last_;
  next_.checksum = base::kFnvStart;
  snapshot_bytes_ = 0;
  read_ = 0;
  since_ = 0;
  phase_ = Phase::kReadsChunks;
  return Commit::kCommitted;
}

Commit Compactor::read_chunk() {
  if (read_ == old_.count) {
    phase_ = Phase::kReadsBatches;
    return Commit::kCommitted;
  }
  const auto bytes = journal_.chunk(old_, read_);
  if (!bytes) return stop_reading(bytes.error());
  if (const auto good = fold_->chunk(old_, read_, *bytes); !good) return stop_reading(good.error());
  ++read_;
  return Commit::kCommitted;
}

// A journal that is out of reach may be read later. A record that makes no sense stays so.
Commit Compactor::stop_reading(const Error& why) {
  if (why.code() != Errc::kCorruptState && why.code() != Errc::kVersionMismatch) {
    return Commit::kLater;
  }
  broken_ = why;
  fold_.reset();
  phase_ = Phase::kBroken;
  return Commit::kCommitted;
}

Commit Compactor::read_batches() {
  std::uint64_t number = std::max(fold_->last_batch(), old_.batch);
  for (std::size_t size = 0; size < settings_.chunk; ++number) {
    if (number == next_.batch) {
      phase_ = Phase::kWritesChunks;
      return Commit::kCommitted;
    }
    const auto bytes = journal_.batch(number + 1);
    if (!bytes) return stop_reading(bytes.error());
    if (const auto good = fold_->batch(number + 1, *bytes); !good) {
      return stop_reading(good.error());
    }
    size += bytes->size() + 256;
  }
  return Commit::kCommitted;
}

Commit Compactor::write_chunk() {
  if (!chunk_) chunk_ = fold_->take_chunk(settings_.chunk);
  if (!chunk_) {
    fold_.reset();
    keeps_memory_ = true;
    phase_ = Phase::kWritesHead;
    return Commit::kCommitted;
  }
  const Commit done = journal_.put_chunk(next_.batch, next_.count, *chunk_);
  if (done != Commit::kCommitted) return done;
  ++next_.count;
  next_.checksum = base::fnv1a(*chunk_, next_.checksum);
  snapshot_bytes_ += chunk_->size();
  chunk_.reset();
  return Commit::kCommitted;
}

Commit Compactor::write_head() {
  const Commit done = journal_.put_head(next_);
  if (done != Commit::kCommitted) return done;
  old_ = next_;
  phase_ = Phase::kTrims;
  return Commit::kCommitted;
}

void Compactor::give_back_memory(base::BootInstant now) {
  if (!keeps_memory_ || busy() || now < next_give_back_) return;
  keeps_memory_ = false;
  next_give_back_ = now + kBetweenGiveBacks;
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

}  // namespace holdfast::server
