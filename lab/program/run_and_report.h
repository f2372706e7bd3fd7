// The program's reports on its runs, while they run and afterwards.
#pragma once

#include <optional>
#include <string>

#include "holdfast/result.h"

#include "lab/runner/run.h"

namespace holdfast::lab {

// On a terminal it replaces one line every second; elsewhere it prints a line every ten seconds.
class ProgressLine {
 public:
  ProgressLine(bool wanted, std::string label);
  void show(const Progress& progress);
  void clear();

 private:
  const bool wanted_;
  const bool terminal_;
  const std::string label_;
  bool shown_ = false;
  milliseconds last_{0};
};

// Prints a line for the run, and the deviations from the expectations.
void tell(const RunResult& result);

// Checks that the user's own store works, before clients start that would each find out by
// themselves. Errors: those of Client::connect().
Result<void> try_store(const Scenario& scenario);

// Checks that runs can be kept in that folder, before there is one to lose. Succeeds without a
// folder.
Result<void> try_folder(const std::optional<std::string>& out);

// Writes the scenario and the report to a new folder inside `out`, and returns its path. Leaves out
// a password in the store's URL. Throws.
std::string keep(const RunResult& result, const std::string& out);

struct Reported {
  RunResult result;
  bool kept = true;  // Also true if nothing was to be kept.
};

// Runs the scenario, with progress unless `quiet`, and prints the result. Keeps it in `out`; if
// that is empty, keeps an unexpected result in ./lab-found. Complains if it cannot be kept.
Reported run_and_report(const Scenario& scenario, bool quiet, const std::string& out);

}  // namespace holdfast::lab
