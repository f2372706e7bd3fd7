// One lock and its tickets as the machine keeps them: slots linked by number. A service holds a
// million of each, so what few of them have is kept apart, and nothing is kept twice: the end of a
// lease is in the heap of ends only.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
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
  std::uint64_t token_counter = 0;
  std::uint64_t seq = 0;
  Duration lease{};
  Duration ttl{};
  Duration waiter_ttl{};
  OwnerPtr owner;
  std::uint32_t token_epoch = 0;
  LockIndex lock = kNone;
  Links links;  // Among the holders or the waiters.
  std::uint32_t permits = 1;
  ModeKind kind = ModeKind::kExclusive;
  bool waits = false;  // It stands among the waiters.
  bool held = false;
  bool system = false;

  // Kept in parts, because a Token has four unused bytes.
  Token token() const { return {token_epoch, token_counter}; }
  void set_token(Token token) {
    token_epoch = token.epoch;
    token_counter = token.counter;
  }
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

// Parts that most locks never need: a lock gets them with its first waiter, value or upgrade, or
// with a Resize.
struct LockExtras {
  std::string value;
  List waiters;                      // In queue order.
  TicketIndex upgrade = kNone;       // At most one upgrade stands at a time, waiting or admitted.
  TicketIndex upgrade_base = kNone;  // The shared ticket that it upgrades.
  TicketIndex shrink = kNone;        // The system ticket of a Resize.
};

inline const LockExtras kNoExtras{};

struct Lock {
  std::string name;
  std::unique_ptr<LockExtras> own_extras;  // Read through extras(); they stay with the lock.
  Token last_token{};
  std::uint64_t next_order = 1;
  Occupancy held;                     // The holders' share.
  List holders;                       // In order of their tokens.
  TombstoneIndex tombstones = kNone;  // The newest one, which links the others.
  std::uint32_t hash = 0;
  std::uint32_t capacity = 1;
  ModeKind kind = ModeKind::kExclusive;  // As in LockImage.
  bool used = false;                     // The slot is a lock.
  bool touched = false;                  // In this step.
  bool pending : 1 = false;              // In the table's set of locks with admissions left over.
  bool exhausted : 1 = false;            // In the table's set of locks that wait for tokens.
  bool indexed : 1 = false;              // The table finds its tickets by their hash.

  const LockExtras& extras() const { return own_extras ? *own_extras : kNoExtras; }
  LockExtras& make_extras() {
    if (!own_extras) own_extras = std::make_unique<LockExtras>();
    return *own_extras;
  }
  std::array<const List*, 2> ticket_lists() const { return {&holders, &extras().waiters}; }
  std::uint32_t ticket_count() const { return holders.count + extras().waiters.count; }
  bool has_tickets() const { return ticket_count() != 0; }
  bool idle() const { return !has_tickets() && tombstones == kNone && extras().value.empty(); }
};

}  // namespace holdfast::machine
