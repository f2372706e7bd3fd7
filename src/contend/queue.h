// Decides who holds: a pure function of the contenders of a lock in their order.
//
// The rule is the machine's (admission.h): a ticket is admitted when it is compatible with every
// ticket before it, within the capacity. Here nothing is marked as held for that: tickets before
// mine only go or weaken, so what was admitted stays so. Two things need a write of their own,
// since the list alone would not tell:
//
//   an upgrade    holds from the moment at which the lock's record names it. Others who would newly
//                 hold beside an upgrade that waits write the record, too: of the two, one wins.
//   a late token  a contender that was created before the last write to the record marks itself
//                 before it holds, and the mark's number is its token: an upgrade that was
//                 created later may have held with a larger one. It writes the record behind that:
//                 who was created before the mark has to do the same.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/contend/record.h"
#include "src/machine/types.h"

namespace holdfast::contend {

// A contender in its lock's folder.
struct QueueEntry {
  Key key;
  std::uint64_t order = 0;  // Grows with every creation in the folder.
  // Where the listing brought them or the engine has read them. Only an exclusive ticket at the
  // head can have been weakened, and only the head tells which N goes: no others need be read.
  std::optional<Details> details{};
  std::uint64_t created = 0;  // Set with `details`, and of the own place.
  std::uint64_t modified = 0;
};

enum class Verdict : std::uint8_t {
  kHolds,
  kHoldsIfSettled,  // Once the record was written (`upgrade`: so that it names me), as expected.
  kWaits,           // For the end or the weakening of queue[blocker].
  kWaitsForAny,     // Whoever goes may let me in: the first who waits for permits.
  kLook,            // queue[blocker].details are needed to tell.
  kGone,            // I do not stand in the queue, or what I upgrade does not.
  kMismatch,        // queue[blocker] is of another kind or another N.
  kTooLarge,        // More permits than N.
  kWouldDeadlock,   // Another upgrade came first.
};

struct Decision {
  Verdict verdict{};
  std::size_t blocker = 0;
  std::uint32_t ahead = 0;  // kWaits: those who wait before me.
};

// `queue` is sorted by order; `record_rev` and `record` are of the same listing or newer, and the
// own place has its `created`. To be asked of a ticket that was not told yet that it holds.
Decision decide(std::span<const QueueEntry> queue, const machine::AcquisitionId& me,
                const Record& record, std::uint64_t record_rev);

// For a ticket that would not wait, and has to (`decision`): whose details must be known, or must
// change, before it may be told that the lock is busy. Details::attempt: that one holds, or is
// about to leave and has not held. nullopt: somebody holds, or waits in earnest, before it.
std::optional<std::size_t> in_doubt(std::span<const QueueEntry> queue,
                                    const machine::AcquisitionId& me, const Record& record,
                                    std::uint64_t record_rev, const Decision& decision);

// Before it is told, or counted against a limit, how many wait before me: whose details must be
// known. An exclusive head may have been weakened, and then the readers next to it hold.
// nullopt: it makes no difference, or they are known.
std::optional<std::size_t> unread_head(std::span<const QueueEntry> queue,
                                       const machine::AcquisitionId& me);

// For each entry, whether it holds. Orphaned upgrades do not; unread details count as not weakened.
std::vector<bool> holders(std::span<const QueueEntry> queue, const Record& record,
                          std::uint64_t record_rev);

// How many wait before that ticket, whoever of them it may pass.
std::uint32_t waiting_before(std::span<const QueueEntry> queue, const machine::AcquisitionId& me,
                             const Record& record, std::uint64_t record_rev);

// N of a permits lock as its queue and record say; 1 where no ticket asks for permits.
std::uint32_t capacity_of(std::span<const QueueEntry> queue, const Record& record,
                          std::uint64_t record_rev);

// The record, less what is void by now: what a new one is made from.
Record still_valid(std::span<const QueueEntry> queue, const Record& record,
                   std::uint64_t record_rev);

// The token of a contender that holds. nullopt: it must mark itself first (Details::marked), and
// the number of that write is the token.
std::optional<machine::Token> token_at_grant(const Details& details, std::uint64_t created,
                                             std::uint64_t modified, std::uint64_t record_rev);
// The same of somebody else who holds, for people and for a break.
machine::Token token_of(const Details& details, std::uint64_t created, std::uint64_t modified);

}  // namespace holdfast::contend
