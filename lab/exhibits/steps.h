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

#include "lab/checker/checker.h"
#include "lab/history/history.h"

namespace holdfast::lab {

void print_steps(const History& history, const Verdict& verdict,
                 const std::map<std::uint32_t, std::string>& names, std::ostream& out);

}  // namespace holdfast::lab
