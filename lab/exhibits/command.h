// `holdfast-lab exhibits`: plays the exhibits and prints one table.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

namespace holdfast::lab {

struct ExhibitsOrders {
  bool list = false;                 // Their names, and nothing is played.
  bool steps = false;                // Only the steps of each mistake.
  std::string out{};                 // A report of each performance goes there; empty: none.
  std::vector<std::string> names{};  // None: all.
};

// 0: each mistake was caught as what it is, and Holdfast kept its promise beside it; 1: not so;
// 2: there is no such exhibit; 125: it could not be tried (no Redis server, or no server for an
// exhibit that was named). When `interrupted` says so, it ends after the play that runs, with 1.
int run_exhibits(
    const ExhibitsOrders& orders, std::ostream& out, std::ostream& err,
    const std::function<bool()>& interrupted = [] { return false; });

}  // namespace holdfast::lab
