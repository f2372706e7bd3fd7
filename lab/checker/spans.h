// How long each acquisition was held: in its owner's belief, and certainly in the store.
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

// The belief begins with the return of an acquire, or of a renewal after the deadline that said
// "renewed". It ends with the invocation of the release, the local deadline, the news of the loss,
// or death, whichever is first.
void append_beliefs(const Acquisition& acquisition, std::uint32_t index, std::vector<Span>& spans);

// The instant until which the store surely granted: its acknowledged lease, counted from the
// invocation, up to the local deadline, a change of the store's clock, or the next incarnation. If
// this is not after the return of the acquire, the grant had perhaps ended by then.
std::int64_t sure_end(const Ledger& ledger, const Acquisition& acquisition);

// The number of the incarnation that granted; -1 if that is uncertain.
int incarnation_of(const Ledger& ledger, const Acquisition& acquisition);

// `spans` of one lock, in any order. The first argument began earlier, or at the same instant.
using Report = std::function<void(const Span& earlier, const Span& later)>;
void find_overlaps(const Ledger& ledger, std::vector<Span>& spans, const Report& report);

}  // namespace holdfast::lab
