#include "src/contend/queue.h"

#include <algorithm>

namespace holdfast::contend {
namespace {

constexpr std::size_t kNone = SIZE_MAX;

bool counts_permits(const Key& key) {
  return key.shape == Shape::kPermits || key.shape == Shape::kShrink;
}

std::size_t find(std::span<const QueueEntry> queue, const machine::AcquisitionId& id) {
  for (std::size_t i = 0; id && i < queue.size(); ++i) {
    if (queue[i].key.id == id) return i;
  }
  return kNone;
}

// Only one upgrade counts: the first whose shared ticket is in the queue.
std::size_t find_upgrade(std::span<const QueueEntry> queue) {
  for (std::size_t i = 0; i < queue.size(); ++i) {
    if (queue[i].key.shape != Shape::kUpgrade) continue;
    if (find(queue, queue[i].key.upgrade_of) != kNone) return i;
  }
  return kNone;
}

bool orphaned(std::span<const QueueEntry> queue, std::size_t i) {
  return queue[i].key.shape == Shape::kUpgrade && find(queue, queue[i].key.upgrade_of) == kNone;
}

bool shared_by_now(const QueueEntry& place) {
  return place.key.shape == Shape::kShared ||
         (place.key.shape == Shape::kExclusive && place.details && place.details->weakened);
}

std::size_t head_of(std::span<const QueueEntry> queue) {
  std::size_t head = 0;
  while (head < queue.size() && orphaned(queue, head)) ++head;
  return head;
}

// The tickets that hold by the order alone, without regard to a holding upgrade.
std::vector<bool> admitted_in_order(std::span<const QueueEntry> queue, std::uint32_t capacity) {
  std::vector<bool> admitted(queue.size(), false);
  std::uint64_t permits = 0;
  bool readers = false;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const QueueEntry& place = queue[i];
    if (orphaned(queue, i)) continue;
    if (counts_permits(place.key)) {
      permits += place.key.permits;
      if (readers || permits > capacity) break;
    } else if (shared_by_now(place)) {
      if (permits > 0) break;
      readers = true;
    } else {
      if (place.key.shape == Shape::kExclusive && !readers && permits == 0) admitted[i] = true;
      break;
    }
    admitted[i] = true;
  }
  return admitted;
}

std::uint32_t waiting_before(const std::vector<bool>& admitted, std::size_t me) {
  const auto held = std::count(admitted.begin(), admitted.begin() + static_cast<long>(me), true);
  return static_cast<std::uint32_t>(me - static_cast<std::size_t>(held));
}

// The nearest entry before mine that is not an orphan.
std::size_t before(std::span<const QueueEntry> queue, std::size_t me) {
  for (std::size_t i = me; i-- > 0;) {
    if (!orphaned(queue, i)) return i;
  }
  return kNone;
}

Decision decide_upgrade(std::span<const QueueEntry> queue, std::size_t me, const Record& record) {
  const std::size_t base = find(queue, queue[me].key.upgrade_of);
  if (base == kNone) return {Verdict::kGone};
  if (record.upgrade == queue[me].key.id) return {Verdict::kHolds};
  const std::size_t first = find_upgrade(queue);
  if (first != me) return {Verdict::kWouldDeadlock, first};
  const std::vector<bool> admitted = admitted_in_order(queue, 1);
  if (!admitted[base] || !shared_by_now(queue[base])) {
    const std::size_t head = head_of(queue);
    const bool unread = queue[head].key.shape == Shape::kExclusive && !queue[head].details;
    return unread ? Decision{Verdict::kLook, head} : Decision{Verdict::kGone};
  }
  for (std::size_t i = queue.size(); i-- > 0;) {
    if (admitted[i] && i != base) return {Verdict::kWaits, i, 0};
  }
  return {Verdict::kHoldsIfSettled};
}

Decision decide_permits(std::span<const QueueEntry> queue, std::size_t me, const Record& record,
                        std::uint64_t record_rev) {
  const std::size_t head = head_of(queue);
  if (record.capacity && head != me && queue[head].created == 0) return {Verdict::kLook, head};
  const std::uint32_t capacity = capacity_of(queue, record, record_rev);
  // An entry from before the change of N stays valid. A newcomer has to know the new N.
  const bool newcomer = !record.capacity || queue[me].created > record_rev;
  if (newcomer && queue[me].key.capacity != capacity) return {Verdict::kMismatch, head};
  if (queue[me].key.permits > capacity) return {Verdict::kTooLarge, head};
  const std::vector<bool> admitted = admitted_in_order(queue, capacity);
  if (admitted[me]) return {Verdict::kHolds};
  const std::uint32_t ahead = waiting_before(admitted, me);
  if (ahead == 0) return {Verdict::kWaitsForAny, head, 0};
  return {Verdict::kWaits, before(queue, me), ahead};
}

Decision decide_shared(std::span<const QueueEntry> queue, std::size_t me, const Record& record,
                       std::uint64_t record_rev) {
  const std::size_t head = head_of(queue);
  const std::size_t upgrade = find_upgrade(queue);
  const std::vector<bool> held = holders(queue, record, record_rev);
  std::size_t blocker = kNone;
  for (std::size_t i = me; i-- > 0 && blocker == kNone;) {
    if (!orphaned(queue, i) && !shared_by_now(queue[i])) blocker = i;
  }
  if (blocker == head && queue[head].key.shape == Shape::kExclusive && !queue[head].details) {
    return {Verdict::kLook, head};
  }
  if (blocker != kNone) return {Verdict::kWaits, blocker, waiting_before(held, me)};
  if (upgrade == kNone) return {Verdict::kHolds};
  if (record.upgrade == queue[upgrade].key.id &&
      queue[upgrade].key.upgrade_of != queue[me].key.id) {
    return {Verdict::kWaits, upgrade, waiting_before(held, me)};
  }
  return {Verdict::kHoldsIfSettled};
}

}  // namespace

Decision decide(std::span<const QueueEntry> queue, const machine::AcquisitionId& id,
                const Record& record, std::uint64_t record_rev) {
  const std::size_t me = find(queue, id);
  if (me == kNone) return {Verdict::kGone};
  if (queue[me].key.shape == Shape::kUpgrade) return decide_upgrade(queue, me, record);
  const std::size_t head = head_of(queue);
  // The head decides what the name is used for. Whatever else is asked for is refused.
  if (head < me && counts_permits(queue[head].key) != counts_permits(queue[me].key)) {
    return {Verdict::kMismatch, head};
  }
  switch (queue[me].key.shape) {
    case Shape::kPermits:
    case Shape::kShrink: return decide_permits(queue, me, record, record_rev);
    case Shape::kShared: return decide_shared(queue, me, record, record_rev);
    case Shape::kExclusive:
    case Shape::kUpgrade: break;
  }
  // An exclusive entry holds when nothing stands before it.
  const std::size_t blocker = before(queue, me);
  if (blocker == kNone) return {Verdict::kHolds};
  return {Verdict::kWaits, blocker, waiting_before(holders(queue, record, record_rev), me)};
}

std::optional<std::size_t> in_doubt(std::span<const QueueEntry> queue,
                                    const machine::AcquisitionId& id, const Record& record,
                                    std::uint64_t record_rev, const Decision& decision) {
  const std::size_t me = find(queue, id);
  if (me == kNone) return std::nullopt;
  const auto doubtful = [&](std::size_t i) -> std::optional<std::size_t> {
    if (queue[i].details && !queue[i].details->attempt) return std::nullopt;
    return i;
  };
  switch (queue[me].key.shape) {
    case Shape::kExclusive: return doubtful(head_of(queue));
    case Shape::kShared:
      // The record says that this upgrade holds.
      if (record.upgrade && queue[decision.blocker].key.id == record.upgrade) return std::nullopt;
      for (std::size_t i = 0; i < me; ++i) {
        if (!orphaned(queue, i) && !shared_by_now(queue[i])) return doubtful(i);
      }
      return std::nullopt;
    case Shape::kUpgrade: return doubtful(decision.blocker);
    case Shape::kPermits:
    case Shape::kShrink: break;
  }
  // Without the entries in doubt this ticket might hold, because a waiter before it may wait only
  // for them, too.
  std::optional<std::size_t> first;
  std::vector<QueueEntry> certain;
  for (std::size_t i = 0; i < me; ++i) {
    const auto doubt = doubtful(i);
    if (!doubt) certain.push_back(queue[i]);
    if (!first) first = doubt;
  }
  certain.push_back(queue[me]);
  const std::uint32_t capacity = capacity_of(queue, record, record_rev);
  return admitted_in_order(certain, capacity).back() ? first : std::nullopt;
}

std::optional<std::size_t> unread_head(std::span<const QueueEntry> queue,
                                       const machine::AcquisitionId& id) {
  const std::size_t me = find(queue, id);
  const std::size_t head = head_of(queue);
  if (me == kNone || head >= me) return std::nullopt;
  if (queue[head].key.shape != Shape::kExclusive || queue[head].details) return std::nullopt;
  std::size_t next = head + 1;
  while (next < me && orphaned(queue, next)) ++next;
  if (next == me || queue[next].key.shape != Shape::kShared) return std::nullopt;
  return head;
}

std::uint32_t waiting_before(std::span<const QueueEntry> queue, const machine::AcquisitionId& id,
                             const Record& record, std::uint64_t record_rev) {
  const std::size_t me = find(queue, id);
  return me == kNone ? 0 : waiting_before(holders(queue, record, record_rev), me);
}

std::vector<bool> holders(std::span<const QueueEntry> queue, const Record& record,
                          std::uint64_t record_rev) {
  const std::size_t upgrade = find_upgrade(queue);
  if (upgrade == kNone || record.upgrade != queue[upgrade].key.id) {
    return admitted_in_order(queue, capacity_of(queue, record, record_rev));
  }
  std::vector<bool> held(queue.size(), false);
  held[upgrade] = true;
  held[find(queue, queue[upgrade].key.upgrade_of)] = true;
  return held;
}

std::uint32_t capacity_of(std::span<const QueueEntry> queue, const Record& record,
                          std::uint64_t record_rev) {
  const std::size_t head = head_of(queue);
  if (head == queue.size() || !counts_permits(queue[head].key)) return 1;
  const bool was_there = queue[head].created != 0 && queue[head].created < record_rev;
  return record.capacity && was_there ? *record.capacity : queue[head].key.capacity;
}

Record still_valid(std::span<const QueueEntry> queue, const Record& record,
                   std::uint64_t record_rev) {
  Record kept = record;
  if (find(queue, record.upgrade) == kNone) kept.upgrade = {};
  const std::size_t head = head_of(queue);
  const bool in_force = head < queue.size() && counts_permits(queue[head].key) &&
                        queue[head].created != 0 && queue[head].created < record_rev;
  if (!in_force) kept.capacity.reset();
  return kept;
}

std::optional<machine::Token> token_at_grant(const Details& details, std::uint64_t created,
                                             std::uint64_t modified, std::uint64_t record_rev) {
  if (details.token || details.marked || created > record_rev) {
    return token_of(details, created, modified);
  }
  return std::nullopt;
}

machine::Token token_of(const Details& details, std::uint64_t created, std::uint64_t modified) {
  if (details.token) return {0, *details.token};
  return {0, details.marked ? modified : created};
}

}  // namespace holdfast::contend
