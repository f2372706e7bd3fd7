// The changes by a command. A reader who sees only effects can rebuild the state: the transactional
// stores persist them as rows, the tests replay them into a second machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/machine/types.h"

namespace holdfast::machine {

enum class EffectKind : std::uint8_t {
  kQueued,      // A ticket was appended as a waiter: every ticket field is set.
  kGranted,     // The ticket holds now (appended in the same step when kQueued did not precede it:
                // every ticket field is set). token, lease_end, seq, lease as granted.
  kExtended,    // lease_end, seq and lease are new.
  kReleased,    // A holder gave the lock back.
  kCancelled,   // A waiter left.
  kExpired,     // The lease ended: holder (was_holder) or waiter.
  kBroken,      // An operator ended a holder; `owner` is who did it.
  kDropped,     // A waiter was removed because N fell below what it asks for.
  kDowngraded,  // The ticket's mode is shared now.
  kResized,     // mode.capacity is the lock's N now (and `id`'s system ticket, if any, is gone).
  kValueSet,    // value
  kTombstone,   // `id` is refused until lease_end.
  kTombstoneDropped,
  kForgotten,  // The lock has no tickets and no value any more and was dropped; its last token
               // lives on in the machine's floor.
};

// Whether the ticket that the effect names is gone afterwards.
constexpr bool ends_ticket(EffectKind kind) {
  switch (kind) {
    case EffectKind::kReleased:
    case EffectKind::kCancelled:
    case EffectKind::kExpired:
    case EffectKind::kBroken:
    case EffectKind::kDropped: return true;
    case EffectKind::kQueued:
    case EffectKind::kGranted:
    case EffectKind::kExtended:
    case EffectKind::kDowngraded:
    case EffectKind::kResized:
    case EffectKind::kValueSet:
    case EffectKind::kTombstone:
    case EffectKind::kTombstoneDropped:
    case EffectKind::kForgotten: return false;
  }
  return false;
}

struct Effect {
  EffectKind kind{};
  std::string name{};
  AcquisitionId id{};
  std::uint64_t order = 0;  // Place in the queue; smaller stands earlier.
  Mode mode{};
  AcquisitionId upgrade_of{};
  bool was_holder = false;
  bool system = false;  // The ticket is the shrink of a permits lock.
  Token token{};
  Instant lease_end{};
  std::uint64_t seq = 0;
  Duration lease{};
  Duration ttl{};
  Duration waiter_ttl{};
  OwnerPtr owner{};
  std::string value{};
};

using Effects = std::vector<Effect>;

}  // namespace holdfast::machine
