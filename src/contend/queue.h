// Decides who holds: a pure function of the contenders of a lock in their order.
//
// The rule is the machine's (admission.h): a ticket is admitted when it is compatible with every
// ticket before it, within the capacity. Admission is not stored here: tickets before mine only
// leave or weaken, so an admitted one stays admitted. Two facts need a write, because the list
// alone does not show them:
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
  // Set if the listing had them or the engine has read them. No details except the head's are
  // needed: only an exclusive ticket at the head can be weakened, and the head decides N.
  std::optional<Details> details{};
  std::uint64_t created = 0;  // Set with `details`, and in the own entry.
  std::uint64_t modified = 0;
};

enum class Verdict : std::uint8_t {
  kHolds,
  kHoldsIfSettled,  // Holds after a write of the unchanged record (`upgrade`: one that names me).
  kWaits,           // Until the end or the weakening of queue[blocker].
  kWaitsForAny,     // The first waiter for permits: any leaving entry may admit it.
  kLook,            // queue[blocker].details are needed to decide.
  kGone,            // My ticket, or the one that it upgrades, is not in the queue.
  kMismatch,        // queue[blocker] is of another kind or another N.
  kTooLarge,        // More permits than N.
  kWouldDeadlock,   // Another upgrade came first.
};

struct Decision {
  Verdict verdict{};
  std::size_t blocker = 0;
  std::uint32_t ahead = 0;  // kWaits: the number of waiters before me.
};

// `queue` is sorted by order. `record_rev` and `record` are of the same listing or newer, and the
// own entry has its `created`. Call it for a ticket that does not know yet that it holds.
Decision decide(std::span<const QueueEntry> queue, const machine::AcquisitionId& me,
                const Record& record, std::uint64_t record_rev);

// For a ticket that would have to wait (`decision`) but does not want to. Returns the entry whose
// details must be known, or must change, before the answer "busy" is right. An entry with
// Details::attempt either holds, or is leaving without having held. nullopt: an entry before it
// surely holds or waits.
std::optional<std::size_t> in_doubt(std::span<const QueueEntry> queue,
                                    const machine::AcquisitionId& me, const Record& record,
                                    std::uint64_t record_rev, const Decision& decision);

// Returns the entry whose details must be known before the number of waiters before me is certain.
// An exclusive head may have been weakened, and then the readers next to it hold. nullopt if they
// are known, or make no difference.
std::optional<std::size_t> unread_head(std::span<const QueueEntry> queue,
                                       const machine::AcquisitionId& me);

// For each entry, whether it holds. Orphaned upgrades do not; unread details count as not weakened.
std::vector<bool> holders(std::span<const QueueEntry> queue, const Record& record,
                          std::uint64_t record_rev);

// The number of waiters before that ticket, including those that it may overtake.
std::uint32_t waiting_before(std::span<const QueueEntry> queue, const machine::AcquisitionId& me,
                             const Record& record, std::uint64_t record_rev);

// N of a permits lock by its queue and record; 1 if no ticket asks for permits.
std::uint32_t capacity_of(std::span<const QueueEntry> queue, const Record& record,
                          std::uint64_t record_rev);

// The record without its outdated parts, as the basis of a new one.
Record still_valid(std::span<const QueueEntry> queue, const Record& record,
                   std::uint64_t record_rev);

// The token of a holding contender. nullopt: it must mark itself first (Details::marked), and the
// number of that write becomes the token.
std::optional<machine::Token> token_at_grant(const Details& details, std::uint64_t created,
                                             std::uint64_t modified, std::uint64_t record_rev);
// The same for another client's holder, for people and for a break.
machine::Token token_of(const Details& details, std::uint64_t created, std::uint64_t modified);

}  // namespace holdfast::contend
