// The exhaustive search for one lock and few calls: can each call take effect at an instant within
// it, so that every answer is right?
//
// This is Wing and Gong's search with Lowe's memory. It tries the steps in every order that their
// intervals allow. A set of taken steps that failed is not tried twice, because the state of the
// lock depends on the set alone.
//
// Guarantee: exact for the given steps, or kUndecided after `limit` sets. Complexity: exponential
// in the number of steps that overlap. At most 64 steps.
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
  Token token{};  // If zero, the order of grants is not checked.
};

struct Step {
  enum class Kind : std::uint8_t {
    kQueue,  // The ticket joins the queue.
    kGrant,  // The ticket holds from now on.
    kEnd,    // The ticket no longer holds or waits.
    kBusy,   // A try is refused, because a holding or queued ticket leaves no room.
  };
  Kind kind = Kind::kGrant;
  std::uint32_t ticket = 0;
  std::int64_t from = 0;
  std::int64_t to = 0;
  bool must = true;  // If false, it may never have happened.
};

enum class Legality : std::uint8_t { kLegal, kIllegal, kUndecided };

Legality search(const std::vector<Ticket>& tickets, const std::vector<Step>& steps,
                std::size_t limit);

}  // namespace holdfast::lab
