// Random histories of a few calls on one lock, legal and illegal, with the verdict of the
// definitions when every instant and every order is tried.
//
// The judgement shares no code with the checker: it reads the draws, not the events. Complexity:
// exponential; small() keeps to four acquisitions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/machine/testing/dice.h"

#include "lab/history/history.h"

namespace holdfast::lab::testing {

struct SmallHold {  // Owner n + 1.
  ModeKind mode = ModeKind::kExclusive;
  std::uint32_t count = 1;
  std::uint64_t token = 0;
  std::int64_t invoked = 0;
  std::int64_t returned = 0;
  std::int64_t deadline = 0;
  std::int64_t ttl = 0;
  struct Times {
    std::int64_t invoked = 0;
    std::int64_t returned = 0;
  };
  std::optional<Times> renew{};
  std::int64_t renewed_deadline = 0;
  std::optional<Times> held{};
  std::optional<Times> release{};
  std::uint64_t write = 0;  // Sequence number of an accepted write; 0: none.
};

struct SmallHistory {
  std::vector<SmallHold> holds;
  std::optional<SmallHold::Times> busy{};  // A refused exclusive try.
  std::optional<SmallHold::Times> loss{};  // A loss of the store's memory. V0 is not judged then.
};

inline constexpr std::uint32_t kSmallCapacity = 3;

SmallHistory draw_small(machine::testing::Dice& dice);
History events_of(const SmallHistory& small);

struct SmallTruth {
  bool v0_legal = true;    // For the granted calls.
  bool busy_legal = true;  // Including the refused try.
  bool v1 = false;
  bool v2 = false;
  bool v3 = false;
};
SmallTruth judge_small(const SmallHistory& small);

// The bounds of the end of the grant: not before the first, not after the second.
std::int64_t sure_end_of(const SmallHold& hold);
std::int64_t possible_end_of(const SmallHold& hold);

}  // namespace holdfast::lab::testing
