#include "src/server/snapshot_reader.h"

#include <algorithm>
#include <utility>

#include "src/base/thread.h"
#include "src/machine/ticket_of.h"

namespace holdfast::server {

using machine::Duration;
using machine::Effect;
using machine::EffectKind;
using machine::LockImage;
using machine::TicketImage;

SnapshotReader::SnapshotReader(Journal& journal, const SnapshotHead& head, Fold& fold,
                               const LockNames& names)
    : head_(head), journal_(journal), fold_(fold), names_(names) {
  if (head.count >= kLarge) thread_ = base::start_thread("hf-snapshot", [this] { work(); });
}

SnapshotReader::~SnapshotReader() {
  {
    const base::LocalLock lock(mutex_);
    stops_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

Result<SnapshotReader::Part> SnapshotReader::next(Part used) {
  if (!thread_.joinable()) return read(std::move(used));
  const base::LocalLock lock(mutex_);
  used_.push_back(std::move(used));
  while (ahead_.empty()) changed_.wait(mutex_);
  Result<Part> part = std::move(ahead_.front());
  ahead_.pop_front();
  changed_.notify_all();
  return part;
}

void SnapshotReader::work() {
  for (bool goes_on = true; goes_on && read_ < head_.count;) {
    Part used;
    {
      const base::LocalLock lock(mutex_);
      while (ahead_.size() >= kAhead && !stops_) changed_.wait(mutex_);
      if (stops_) return;
      if (!used_.empty()) {
        used = std::move(used_.back());
        used_.pop_back();
      }
    }
    Result<Part> part = read(std::move(used));
    goes_on = part.has_value();
    const base::LocalLock lock(mutex_);
    ahead_.push_back(std::move(part));
    changed_.notify_all();
  }
}

Result<SnapshotReader::Part> SnapshotReader::read(Part used) {
  const auto bytes = journal_.chunk(head_, read_);
  if (!bytes) return bytes.error();
  part_ = std::move(used);
  part_.count_ = 0;
  is_open_ = false;
  const auto sum = check_chunk(*bytes, sum_);
  const Checksum own =
      sum ? Checksum::kRight : Checksum::kUnseen;  // Then the error is read_record's.
  auto done = read_record_at({RecordKind::kChunk, head_.batch, read_}, *bytes, *this, own);
  if (!done) return done.error();
  sum_ = *sum;
  if (++read_ == head_.count && sum_ != head_.checksum) {
    return Error(Errc::kCorruptState, "the snapshot's checksum differs from its head's");
  }
  part_.now = fold_.now();
  part_.floor = fold_.floor();
  return std::move(part_);
}

bool SnapshotReader::on_lock(LockHead& lock) {
  is_open_ = !names_.contains(lock.name);
  if (!is_open_) return fold_.on_lock(lock);
  if (part_.count_ == part_.images_.size()) part_.images_.emplace_back();
  LockImage& image = part_.images_[part_.count_++];
  image.name = lock.name;
  image.kind = lock.kind;
  image.capacity = lock.capacity;
  image.last_token = lock.last_token;
  image.next_order = lock.next_order;
  image.value.clear();
  image.tickets.clear();
  image.tombstones.clear();
  return true;
}

bool SnapshotReader::on_effect(Effect& effect) {
  if (!is_open_ || part_.images_[part_.count_ - 1].name != effect.name) {
    return fold_.on_effect(effect);
  }
  LockImage& image = part_.images_[part_.count_ - 1];
  switch (effect.kind) {
    case EffectKind::kQueued:
    case EffectKind::kGranted: {
      if (std::min({effect.lease, effect.ttl, effect.waiter_ttl}) < Duration::zero()) return false;
      TicketImage& ticket = image.tickets.emplace_back(ticket_of(effect));
      ticket.held = effect.kind == EffectKind::kGranted;
      if (ticket.held) ticket.token = effect.token;
      return true;
    }
    case EffectKind::kTombstone:
      image.tombstones.push_back({effect.id, effect.lease_end});
      return true;
    case EffectKind::kValueSet: image.value.swap(effect.value); return true;
    // A snapshot tells what a lock is, not what has become of it.
    case EffectKind::kExtended:
    case EffectKind::kReleased:
    case EffectKind::kCancelled:
    case EffectKind::kExpired:
    case EffectKind::kBroken:
    case EffectKind::kDropped:
    case EffectKind::kDowngraded:
    case EffectKind::kResized:
    case EffectKind::kTombstoneDropped:
    case EffectKind::kForgotten: break;
  }
  return false;
}

}  // namespace holdfast::server
