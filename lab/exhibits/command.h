// `holdfast-lab exhibits`: plays the exhibits and prints one table.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

namespace holdfast::lab {

// 0: each mistake was caught as what it is, and Holdfast kept its promise beside it; 1: not so;
// 2: a word that is not understood; 125: it could not be tried (no Redis server).
// With --steps, what happened in each mistake, and nothing else.
// With --out, a report (lab/report/report.h) of each performance in a folder of its own.
// When `interrupted` says so, it ends after the play that runs, with 1.
int run_exhibits(
    const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err,
    const std::function<bool()>& interrupted = [] { return false; });

}  // namespace holdfast::lab
