// One lock and its tickets as the machine keeps them: slots linked by number.
#pragma once

#include <cstdint>
#include <string>

#include "src/machine/admission.h"
#include "src/machine/image.h"
#include "src/machine/slab.h"
#include "src/machine/types.h"

namespace holdfast::machine {

using LockIndex = std::uint32_t;
using TicketIndex = std::uint32_t;
using TombstoneIndex = std::uint32_t;

// Links an item into one list of its lock.
struct Links {
  std::uint32_t previous = kNone;
  std::uint32_t next = kNone;
};

struct Ticket {
  AcquisitionId id;
  std::uint64_t order = 0;
  Token token{};
  Instant lease_end{};
  std::uint64_t seq = 0;
  Duration lease{};
  Duration ttl{};
  Duration waiter_ttl{};
  OwnerPtr owner;
  LockIndex lock = kNone;
  TicketIndex base = kNone;  // An upgrade's shared ticket.
  Links links;               // Among the holders or the waiters.
  std::uint32_t permits = 1;
  ModeKind kind = ModeKind::kExclusive;
  bool held = false;
  bool system = false;
};

struct Tombstone {
  AcquisitionId id;
  LockIndex lock = kNone;
  Links links;
};

struct List {
  std::uint32_t head = kNone;
  std::uint32_t tail = kNone;
  std::uint32_t count = 0;
};

struct Lock {
  std::string name;
  std::string value;
  std::uint64_t hash = 0;
  Token last_token{};
  std::uint64_t next_order = 1;
  List holders;  // In order of their tokens.
  List waiters;  // In queue order.
  List tombstones;
  Occupancy held;               // The holders' share.
  TicketIndex upgrade = kNone;  // At most one upgrade stands at a time, waiting or admitted.
  TicketIndex shrink = kNone;   // The system ticket of a Resize.
  std::uint32_t capacity = 1;
  ModeKind kind = ModeKind::kExclusive;  // As in LockImage.
  bool used = false;                     // The slot is a lock.
  bool touched = false;                  // In this step.
  bool pending = false;                  // In the table's set of locks with admissions left over.
  bool exhausted = false;                // In the table's set of locks that wait for tokens.

  bool has_tickets() const { return holders.count + waiters.count != 0; }
  bool idle() const { return !has_tickets() && tombstones.count == 0 && value.empty(); }
};

}  // namespace holdfast::machine
