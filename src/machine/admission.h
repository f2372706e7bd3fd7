// The one rule that decides who holds.
//
// Tickets stand in order; a ticket is admitted when it is compatible with every ticket before it,
// within the capacity. Exclusive, shared and `n of N permits` are three values of this rule.
// Admission never reverts, so the holders count as standing before everybody who waits. An upgrade
// is an exclusive ticket linked to a shared one that holds. It passes the waiters ahead of it,
// because they wait for its shared ticket anyway. So only the other holders block it.
//
// The machine applies the rule to running sums (Occupancy), one ticket at a time. The clients of
// ZooKeeper, etcd and Consul read a queue as a list, and have the rule once more for it
// (src/contend/queue.h).
//
// Thread-safety: plain values and pure functions.
#pragma once

#include <cstdint>

#include "src/machine/types.h"

namespace holdfast::machine {

// The joint occupancy of several tickets.
struct Occupancy {
  std::uint32_t exclusive = 0;
  std::uint32_t shared = 0;
  std::uint32_t permits = 0;  // Within the capacity, so it cannot overflow.

  constexpr void add(const Mode& mode);
  constexpr void remove(const Mode& mode);  // The ticket was added before.

  // Is a ticket of this mode compatible with all of these tickets?
  constexpr bool admits(const Mode& mode, std::uint32_t capacity) const;

  // The same for the upgrade of a shared ticket that is one of these.
  constexpr bool admits_upgrade() const;

  constexpr bool empty() const { return exclusive == 0 && shared == 0 && permits == 0; }

  friend bool operator==(const Occupancy&, const Occupancy&) = default;
};

constexpr void Occupancy::add(const Mode& mode) {
  switch (mode.kind) {
    case ModeKind::kExclusive: ++exclusive; break;
    case ModeKind::kShared: ++shared; break;
    case ModeKind::kPermits: permits += mode.permits; break;
  }
}

constexpr void Occupancy::remove(const Mode& mode) {
  switch (mode.kind) {
    case ModeKind::kExclusive: --exclusive; break;
    case ModeKind::kShared: --shared; break;
    case ModeKind::kPermits: permits -= mode.permits; break;
  }
}

constexpr bool Occupancy::admits(const Mode& mode, std::uint32_t capacity) const {
  switch (mode.kind) {
    case ModeKind::kExclusive: return empty();
    case ModeKind::kShared: return exclusive == 0 && permits == 0;
    case ModeKind::kPermits:
      return exclusive == 0 && shared == 0 && std::uint64_t{permits} + mode.permits <= capacity;
  }
  return false;
}

constexpr bool Occupancy::admits_upgrade() const {
  return exclusive == 0 && shared == 1 && permits == 0;
}

}  // namespace holdfast::machine
