// Judges a history: V0 to V3, and whether the locks kept moving.
//
// Guarantee: every reported violation did happen (or the history contradicts itself), by the
// definitions of docs/design/0007-lab-checker.md. Doubtful stamps are read in favour of the lock.
// For exclusive and shared locks with fencing tokens the verdict on V0 is exact: an exhaustive
// search over the granted calls would give the same. V1, V2 and V3 are exact by definition. Not
// guaranteed: to notice every illegal busy answer (they are judged on samples), a violation between
// the two stamps of a change of incarnation, or one of a lease that had a single contender.
//
// Thread-safety: check() is a pure function. Time: as in the history. Complexity: O(n log n) for n
// events, plus locks times faults; the samples have a limit of their own.
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
  // How long a lock may be free while somebody waits for it: the interval of the poll, and a
  // margin.
  std::int64_t wake_ns = 2'000'000'000;
  // The same after all faults have healed, or after the lease of a dead holder has ended.
  std::int64_t grace_ns = 10'000'000'000;
  // How long a store may keep an unreleased lock after its lease, because sessions end later.
  std::int64_t linger_ns = 0;
  // A server that comes back gives every lease its whole length again, and one that goes on after
  // a pause leaves the pause out. A release that was answered shortly before a server's end may be
  // forgotten.
  bool extends = false;
  // Whether the store promises that tokens grow. If not, nothing is concluded from their order.
  bool fenced = true;
  // The difference of two clocks' rates, in parts per million.
  std::int64_t drift_ppm = 10'000;
  std::size_t busy_samples = 1000;
  std::size_t search_steps = 20'000;  // Per sample.
  std::size_t reported_per_class = 100;
};

struct Verdict {
  std::vector<Violation> violations;           // The first of each class, as discovered.
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

// The limits that the history itself declares; the defaults of CheckOptions for the others.
CheckOptions options_of(const History& history);

Verdict check(const History& history, const CheckOptions& options = {});

// Prints a line of totals, then one line per violation.
void print(const Verdict& verdict, std::ostream& out);

}  // namespace holdfast::lab
