// A short history as a story: one line per step, with the violations where they happened.
//
// Guarantee: it has a line for every call on the first lock, and for every death, fault and
// violation. A call that is answered at once has one line; renewals and questions have none.
// Complexity: O(n log n); meant for a screenful.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "lab/checker/checker.h"
#include "lab/history/history.h"

namespace holdfast::lab {

struct ToldStep {
  std::int64_t at = 0;  // In nanoseconds.
  std::string who;
  std::string what;
};

// In the order of their times, which are printed in milliseconds after `zero_ns`.
void print_steps(std::vector<ToldStep> steps, std::int64_t zero_ns, std::ostream& out);

void print_steps(const History& history, const Verdict& verdict,
                 const std::map<std::uint32_t, std::string>& names, std::ostream& out);

}  // namespace holdfast::lab
