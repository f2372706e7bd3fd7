// The full search for one lock and few calls: is there an order of instants, one within each
// call, in which every answer was right?
//
// Wing and Gong's search with Lowe's memory: steps are taken in any order that their intervals
// allow, and a set of taken steps that led nowhere is not entered twice (what the lock is like
// depends on the set alone).
//
// Guarantee: exact, for all that it is given, or kUndecided after `limit` sets.
// Complexity: exponential in the number of steps that overlap. At most 64 steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lab/history/event.h"

namespace holdfast::lab {

// A request: the owner, and its terms.
struct Ticket {
  ModeKind mode = ModeKind::kExclusive;
  std::uint32_t count = 1;
  std::uint32_t capacity = 1;
  Token token{};  // Zero: no order of grants is asked for.
};

struct Step {
  enum class Kind : std::uint8_t {
    kQueue,  // The ticket joins the queue.
    kGrant,  // It holds from here on.
    kEnd,    // It holds, or stands in the queue, no more.
    kBusy,   // A try is refused: a ticket that holds or queues leaves no room.
  };
  Kind kind = Kind::kGrant;
  std::uint32_t ticket = 0;
  std::int64_t from = 0;
  std::int64_t to = 0;
  bool must = true;  // Otherwise it may never have happened.
};

enum class Legality : std::uint8_t { kLegal, kIllegal, kUndecided };

Legality search(const std::vector<Ticket>& tickets, const std::vector<Step>& steps,
                std::size_t limit);

}  // namespace holdfast::lab
