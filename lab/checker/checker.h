// Judges a history: V0 to V3, and whether the locks kept moving.
//
// Guarantee: what is reported did happen (or the history contradicts itself), under the definitions
// of docs/design/0007-lab-checker.md: stamps that leave a doubt are read in favour of the lock. For
// exclusive and shared locks with tokens the verdict on V0 is exact: it is what an exhaustive
// search would say of the granted calls. V1, V2 and V3 are exact by definition. Not guaranteed: to
// see every illegal busy answer (they are judged on samples), what happened between a change of
// incarnation's two stamps, or a lease that no two owners contended for.
//
// Thread-safety: check() is a pure function. Time: as in the history.
// Complexity: O(n log n) for n events, and the locks times the faults; the samples have a limit of
// their own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "lab/checker/violation.h"
#include "lab/history/history.h"

namespace holdfast::lab {

struct CheckOptions {
  // How long a lock may be free while somebody waits for it: the bounded poll and some.
  std::int64_t wake_ns = 2'000'000'000;
  // The same after everything has healed, or the lease of a holder that is gone has ended.
  std::int64_t grace_ns = 10'000'000'000;
  // How long a store may keep what nobody gave back beyond its lease: sessions end later.
  std::int64_t linger_ns = 0;
  // The difference of two clocks' rates, in parts per million.
  std::int64_t drift_ppm = 10'000;
  std::size_t busy_samples = 1000;
  std::size_t search_steps = 20'000;  // Per sample.
  std::size_t reported_per_class = 100;
};

struct Verdict {
  std::vector<Violation> violations;           // The first of each class, in order of discovery.
  std::array<std::size_t, kClasses> counts{};  // All of them.
  std::size_t events = 0;
  std::size_t acquisitions = 0;
  std::size_t without_incarnation = 0;  // Grants that V0 could not place.
  std::size_t refused_writes = 0;
  std::size_t busy_judged = 0;
  std::size_t busy_undecided = 0;

  std::size_t count(Class kind) const { return counts[static_cast<std::size_t>(kind)]; }
  bool clean() const;
};

// With the limits that the history says it is to be judged by; those of CheckOptions otherwise.
CheckOptions options_of(const History& history);

Verdict check(const History& history, const CheckOptions& options = {});

// A line of totals, then one line per violation.
void print(const Verdict& verdict, std::ostream& out);

}  // namespace holdfast::lab
