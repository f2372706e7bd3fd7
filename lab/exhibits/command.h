// `holdfast-lab exhibits`: plays the exhibits and prints one table.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

namespace holdfast::lab {

struct ExhibitsOrders {
  bool list = false;                 // Prints the names, and plays nothing.
  bool steps = false;                // Prints only the steps of each mistake.
  std::string out{};                 // Folder for the reports; no reports if empty.
  std::vector<std::string> names{};  // None: all.
};

// Returns 0 if each mistake was caught by its rule and Holdfast kept its guarantee beside it, and 1
// if not. 2: no such exhibit. 125: it could not be tried, because Redis or the server of a named
// exhibit is missing. When `interrupted` returns true, it ends with 1 after the current play.
int run_exhibits(
    const ExhibitsOrders& orders, std::ostream& out, std::ostream& err,
    const std::function<bool()>& interrupted = [] { return false; });

}  // namespace holdfast::lab
