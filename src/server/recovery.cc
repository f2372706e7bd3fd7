#include "src/server/recovery.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "src/server/snapshot_reader.h"

namespace holdfast::server {
namespace {

using machine::Duration;
using machine::Effect;
using machine::EffectKind;
using machine::Instant;
using machine::LockImage;
using machine::TicketImage;

// About; they only say how much room a machine needs at once.
constexpr std::size_t kBytesPerChunk = std::size_t{64} << 10U;
constexpr std::size_t kBytesPerLock = 150;

Instant saturating_add(Instant at, Duration length) {
  return length > Instant::max() - at ? Instant::max() : at + length;
}

// The recovery has to know this of the batches before it folds them.
class Outline final : public RecordVisitor {
 public:
  // As in Fold. The first chunk raises them, too.
  Instant now{};
  machine::Token floor{};
  bool closed{};  // The newest record is that of an orderly end.
  LockNames named;

 private:
  void on_head(const RecordHead&) override { closed = false; }
  bool on_effect(Effect& effect) override {
    if (effect.kind == EffectKind::kForgotten) floor = std::max(floor, effect.token);
    named.insert(std::move(effect.name));
    return true;
  }
  bool on_floor(machine::Token raised) override {
    floor = std::max(floor, raised);
    return true;
  }
  bool on_mark(std::string, std::string, std::uint64_t) override { return true; }
  bool on_client_floor(std::string, std::uint64_t) override { return true; }
  bool on_lock(LockHead&) override { return true; }
  bool on_trace(std::string, BreakTrace) override { return true; }
  bool on_kept(std::string, KeptText) override { return true; }
  bool on_closing() override {
    closed = true;
    return true;
  }
  bool on_end(Instant at) override {
    now = std::max(now, at);
    return true;
  }
};

class Recovery {
 public:
  Recovery(std::uint64_t floor, const JournalAtOpen& opening, Duration old_leader)
      : floor_(floor), opening_(opening), old_leader_(old_leader) {}

  // In this order.
  Result<void> read_batches(Journal& journal, std::uint64_t after, std::uint64_t last);
  Result<void> read_chunks(Journal& journal, const SnapshotHead& head,
                           const machine::Limits& limits);
  Result<Recovered> finish();

 private:
  std::uint64_t first_counter() const;
  void begin_machine(const machine::Limits& limits, std::size_t chunks);
  Result<void> give(std::span<LockImage> images);
  void extend(TicketImage& ticket);

  const std::uint64_t floor_;
  const JournalAtOpen opening_;
  const Duration old_leader_;
  std::uint64_t first_batch_ = 0;
  std::vector<std::string> batches_;
  Outline outline_;
  Fold fold_;
  Recovered into_{machine::LockMachine({}), {}, 0, {}, 0, 0, {}};
};

void Recovery::extend(TicketImage& ticket) {
  // Renewals up to this length were answered and are not in the journal.
  const Duration length = std::max(ticket.lease, ticket.held ? ticket.ttl : ticket.waiter_ttl);
  ticket.lease_end = saturating_add(saturating_add(outline_.now, length), old_leader_);
  into_.extended.prefetch(ticket.id);
}

Result<void> Recovery::give(std::span<LockImage> images) {
  for (LockImage& image : images) {
    into_.locks += image.tickets.empty() ? 0 : 1;
    for (TicketImage& ticket : image.tickets) {
      if (ticket.system) continue;
      if (ticket.held) {
        ++into_.holders;
      } else {
        into_.waiters.push_back(ticket.id);
      }
      // An orderly end has told each lease's own end, so moving a shard lengthens none (rule 55).
      if (!outline_.closed) extend(ticket);
    }
  }
  // The machine checks each lock again, and stops at the first one that cannot be.
  const std::size_t restored = into_.machine.restore_locks(images);
  // Noted only now, when prefetch() has had the time to load their places.
  for (const LockImage& image : images) {
    for (const TicketImage& ticket : image.tickets) {
      if (!outline_.closed && !ticket.system) into_.extended.insert(ticket.id);
    }
  }
  if (restored == images.size()) return {};
  return Error(Errc::kCorruptState,
               "the journal describes a lock that cannot be: '" + images[restored].name + "'");
}

Result<void> Recovery::read_batches(Journal& journal, std::uint64_t after, std::uint64_t last) {
  first_batch_ = after + 1;
  into_.last_batch = last;
  for (std::uint64_t number = after; number < last;) {
    auto bytes = journal.batch(++number);
    if (!bytes) return bytes.error();
    if (auto read = read_record_at({RecordKind::kBatch, number, 0}, *bytes, outline_); !read) {
      return read;
    }
    batches_.push_back(*std::move(bytes));
  }
  return {};
}

Result<void> Recovery::read_chunks(Journal& journal, const SnapshotHead& head,
                                   const machine::Limits& limits) {
  SnapshotReader reader(journal, head, fold_, outline_.named);
  SnapshotReader::Part part;
  for (std::uint32_t index = 0; index < head.count; ++index) {
    auto next = reader.next(std::move(part));
    if (!next) return next.error();
    part = *std::move(next);
    if (index == 0) {
      outline_.now = std::max(outline_.now, part.now);
      outline_.floor = std::max(outline_.floor, part.floor);
      begin_machine(limits, head.count);
    }
    if (auto given = give(part.locks()); !given) return given;
  }
  if (head.count == 0) begin_machine(limits, 0);
  return {};
}

// Tokens that the copy does not know were above its own, and below them by a year at most.
std::uint64_t Recovery::first_counter() const {
  const std::uint64_t least = std::max(outline_.floor.counter, floor_);
  const bool leaped = opening_.known && least > floor_ + kRestoreLeap / 2;
  return opening_.restored.empty() || leaped ? least : least + kRestoreLeap;
}

void Recovery::begin_machine(const machine::Limits& limits, std::size_t chunks) {
  machine::MachineImage frame;
  frame.now = outline_.now;
  frame.floor = {outline_.floor.epoch, first_counter()};
  into_.machine = *machine::LockMachine::restore(frame, limits);
  const std::size_t locks = chunks * kBytesPerChunk / kBytesPerLock;
  into_.machine.reserve(locks);
  into_.extended.reserve(locks);
}

Result<Recovered> Recovery::finish() {
  for (std::size_t at = 0; at < batches_.size(); ++at) {
    auto read = fold_.batch(first_batch_ + at, batches_[at], Checksum::kRight);
    if (!read) return read.error();
    batches_[at] = {};
  }
  // The outline has seen the first chunk only, and the fold all of them. A difference shows that
  // a chunk is another snapshot's.
  if (fold_.now() != outline_.now || fold_.floor() != outline_.floor) {
    return Error(Errc::kCorruptState, "the snapshot's chunks are not of one snapshot");
  }
  while (auto image = fold_.take_lock()) {
    if (auto given = give({&*image, 1}); !given) return given.error();
  }
  into_.rest = fold_.take_rest();
  return std::move(into_);
}

}  // namespace

Result<Recovered> recover(Journal& journal, const machine::Limits& limits, std::uint64_t floor,
                          Duration old_leader) {
  const auto head = journal.head();
  if (!head) return head.error();
  const auto last = journal.last();
  if (!last) return last.error();
  Recovery recovery(floor, journal.opening(), old_leader);
  if (auto read = recovery.read_batches(journal, head->batch, *last); !read) return read.error();
  if (auto read = recovery.read_chunks(journal, *head, limits); !read) return read.error();
  // The lead has to last: from here on the journal is asked nothing, and a million locks that
  // batches name take seconds.
  if (journal.is_shared()) {
    journal.keep_leading();
    static_cast<void>(journal.look());
  }
  return recovery.finish();
}

}  // namespace holdfast::server
