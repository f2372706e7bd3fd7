// For how long each acquisition was held: as its owner believed, and as the store surely had it.
//
// Guarantee: half-open spans [start, end) of host boot time, never empty; find_overlaps() reports
// at least one pair for every span that begins while others leave no room for it.
// Complexity: O(n log n) for n spans (the sum of all locks).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "lab/checker/ledger.h"

namespace holdfast::lab {

struct Span {
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::uint64_t who = 0;  // Spans of the same `who` do not conflict (but share the permits).
  std::uint32_t acquisition = 0;
};

// Believed: from the return of an acquire (or of a renewal after the deadline that said "renewed")
// to the first of: invocation of the release, local deadline, told that it is lost, death.
void append_beliefs(const Acquisition& acquisition, std::uint32_t index, std::vector<Span>& spans);

// The end of what the store surely granted: what it acknowledged, counted from the invocation; no
// further than the local deadline, a change of the store's clock, or the next incarnation. At or
// before the return of the acquire: it had perhaps ended by then.
std::int64_t sure_end(const Ledger& ledger, const Acquisition& acquisition);

// The number of the incarnation that granted; -1: it cannot be told which.
int incarnation_of(const Ledger& ledger, const Acquisition& acquisition);

// `spans` of one lock, in any order. The first argument began earlier, or at the same instant.
using Report = std::function<void(const Span& earlier, const Span& later)>;
void find_overlaps(const Ledger& ledger, std::vector<Span>& spans, const Report& report);

}  // namespace holdfast::lab
