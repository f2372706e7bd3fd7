// The state of one lock as plain data: what a snapshot holds, what the stores load and save, and
// what `inspect` shows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/machine/types.h"

namespace holdfast::machine {

struct TicketImage {
  AcquisitionId id{};
  std::uint64_t order = 0;
  Mode mode{};
  bool held = false;
  bool system = false;  // The shrink of a permits lock: no lease, no owner.
  AcquisitionId upgrade_of{};
  Token token{};  // Zero while waiting.
  Instant lease_end{};
  std::uint64_t seq = 0;
  Duration lease{};
  Duration ttl{};
  Duration waiter_ttl{};
  OwnerPtr owner{};

  friend bool operator==(const TicketImage&, const TicketImage&) = default;
};

struct TombstoneImage {
  AcquisitionId id{};
  Instant until{};

  friend bool operator==(const TombstoneImage&, const TombstoneImage&) = default;
};

struct LockImage {
  std::string name{};
  ModeKind kind = ModeKind::kExclusive;  // kExclusive stands for the exclusive/shared kind.
  std::uint32_t capacity = 1;
  Token last_token{};
  std::uint64_t next_order = 1;
  std::string value;
  std::vector<TicketImage> tickets;        // In queue order, holders and waiters.
  std::vector<TombstoneImage> tombstones;  // Sorted by id.

  friend bool operator==(const LockImage&, const LockImage&) = default;
};

struct MachineImage {
  std::uint32_t format = 1;
  Instant now{};
  Token floor{};
  std::vector<LockImage> locks;  // Sorted by name.

  friend bool operator==(const MachineImage&, const MachineImage&) = default;
};

}  // namespace holdfast::machine
