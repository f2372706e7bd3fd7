// The commands of the lock machine, and its answers.
//
// A command names the lock, the acquisition and the instant at which it takes place. It yields
// one Reply for the caller and any number of effects; the effects alone suffice to rebuild the
// state (effect.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "src/machine/types.h"

namespace holdfast::machine {

// Asks for the lock. Idempotent by `id`. A second Acquire of an id that waits or holds changes
// nothing and gets the ticket's present state. An id that ended within its tombstone's time is
// answered kGone and never granted.
struct Acquire {
  std::string_view name{};
  AcquisitionId id{};
  Mode mode{};
  bool may_wait = true;           // false: kBusy instead of a ticket in the queue.
  Duration ttl{};                 // Length of the lease once granted, counted from `at`.
  Duration waiter_ttl{};          // Length of the lease of the ticket while it waits.
  std::uint32_t max_waiters = 0;  // kQueueFull when as many wait already; 0: no limit.
  // Set: the admitted shared ticket of the same owner that this upgrades. The upgrade ends with it,
  // so whoever upgraded renews both and counts on the earlier end.
  AcquisitionId upgrade_of{};
  OwnerPtr owner{};
};

// The heartbeat of a waiter and the renewal of a holder: extends a ticket's lease, never creates
// one. `seq` numbers the client's requests for this ticket, 0 being the Acquire; one that is not
// above the last applied changes nothing. A lease end moves back by Keep only; a renewal that would
// not move it forward changes nothing either.
struct Renew {
  std::string_view name{};
  AcquisitionId id{};
  std::uint64_t seq = 0;
  Duration ttl{};
  Duration waiter_ttl{};
};

// Gives the lock back, and grants to the next in the same step. On a waiter it does what Cancel
// does. An upgrade of the ticket ends with it. An unknown id leaves its tombstone too, since this
// request may have overtaken its Acquire.
struct Release {
  std::string_view name{};
  AcquisitionId id{};
  Duration tombstone{};  // How long the id stays refused; zero where requests cannot be late.
};

// Leaves the queue. If the ticket was granted meanwhile, hands on in the same step.
struct Cancel {
  std::string_view name{};
  AcquisitionId id{};
  Duration tombstone{};
};

// Exclusive becomes shared in place, or an admitted upgrade goes back to its shared ticket. The
// readers that this admits are granted in the same step. The token stays. A shared ticket stays
// unchanged (kDone).
struct Downgrade {
  std::string_view name{};
  AcquisitionId id{};
  Duration tombstone{};  // For the id of an upgrade, which is gone afterwards.
};

// An operator frees the lock by force: the holder with this token, whose lease ends at once. A
// token that no holder has changes nothing (kNotHeld), so a break cannot hit a newer holder.
// Breaking an upgrade leaves its shared ticket.
struct Break {
  std::string_view name{};
  Token token{};
  Duration tombstone{};
  OwnerPtr by{};
};

// Changes N of a permits lock. Growing takes effect now. Shrinking queues a system ticket over the
// difference under `id` (kWaiting); N falls when that is admitted. Waiting tickets larger than the
// new N are dropped then (kTooLarge). A later Resize replaces one that still waits, and Cancel
// withdraws it, for good within its tombstone's time. A lock without tickets has no N to change
// (kNotHeld): the next Acquire brings it.
struct Resize {
  std::string_view name{};
  AcquisitionId id{};
  std::uint32_t capacity = 1;
};

// Stores up to 4 KiB beside the lock, only for a current holder; stays after its release.
struct SetValue {
  std::string_view name{};
  AcquisitionId id{};
  std::string value{};
};

// The last request of a holder that lets go. Its lease ends `ttl` from now, sooner or later than it
// would. The value is stored in the same step. `seq` as in Renew: one that is below the last
// applied is late (kNotHeld), an equal one is the same again (kDone). The only way in which the end
// of a lease moves back: the client must not count on more than this before it asks.
struct Keep {
  std::string_view name{};
  AcquisitionId id{};
  std::uint64_t seq = 0;
  Duration ttl{};
  std::optional<std::string> value{};  // nullopt: it stays as it is.
};

// Nothing but the passage of time: expires what is due and admits. `name`: the command's lock, if
// it is about one.
struct Tick {
  std::string_view name{};
};

using Action =
    std::variant<Acquire, Renew, Release, Cancel, Downgrade, Break, Resize, SetValue, Keep, Tick>;

struct Command {
  Instant at;
  Action action;
  // At most so many leases and tombstones of other locks end in this step. The following steps end
  // the rest.
  std::uint32_t others = UINT32_MAX;
};

enum class Outcome : std::uint8_t {
  kHeld,       // The ticket holds the lock: token, lease_end, seq and lease say on what terms.
  kWaiting,    // The ticket stands in the queue.
  kBusy,       // Not free, and the caller would not wait. No ticket was made.
  kGone,       // No such ticket: released, cancelled, expired, broken, or never there.
  kReleased,   // Release, Cancel and Break: the ticket held and does not any more.
  kCancelled,  // Release and Cancel: the ticket waited and does not any more.
  kDone,       // Downgrade, Resize, SetValue, Keep, Tick.
  kNotHeld,    // Break: no holder has that token. SetValue, Keep, Downgrade: the id does not hold.
               // Resize: the lock has no tickets.
  kMismatch,   // Kind or N differ from what the lock's present tickets agreed on.
  kTooLarge,   // More permits than N, a value over the limit.
  kQueueFull,
  kWouldDeadlock,  // A second upgrade of the same lock.
  kInvalid,        // A malformed request: zero id, ttl or permits, an upgrade of a non-holder ...
  kExhausted,      // No token is left below the ceiling. Nothing was granted.
};

// The ticket after the command. Only the fields that the outcome names are meaningful.
struct Reply {
  Outcome outcome = Outcome::kDone;
  Token token{};
  Instant lease_end{};
  // The request that defined lease_end, and the length it was given. The client counts its own
  // deadline from the instant at which it *sent* that request.
  std::uint64_t seq = 0;
  Duration lease{};
  // kWaiting: tickets ahead of this one that still wait. Exact up to 64; beyond, it may count some
  // that have left, so that a heartbeat never walks a long queue.
  std::uint32_t position = 0;
  // kWaiting, kBusy: the earliest lease end among the holders (the 64 oldest, if more hold). It is
  // the present instant when nobody holds, so that asking again at once is worth it.
  Instant next_expiry{};
  // kWaiting, kBusy: nobody counts on the lock any more, and the lock-delays of its last holders
  // (64 at most) keep it closed until then. Instant(): not so.
  Instant opens_at{};

  friend bool operator==(const Reply&, const Reply&) = default;
};

}  // namespace holdfast::machine
