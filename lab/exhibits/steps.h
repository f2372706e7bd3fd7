// A short history as a story: one line per step, with the violations where they happened.
//
// Guarantee: every call on the first lock, every death, fault and violation is a line of it (of
// calls that are answered at once only the answer; renewals and questions are left out).
// Complexity: O(n log n); meant for a screenful.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>

#include "lab/checker/checker.h"
#include "lab/history/history.h"

namespace holdfast::lab {

void print_steps(const History& history, const Verdict& verdict,
                 const std::map<std::uint32_t, std::string>& names, std::ostream& out);

}  // namespace holdfast::lab
