// The program's reports on its runs, while they run and afterwards.
#pragma once

#include <optional>
#include <string>

#include "holdfast/result.h"

#include "lab/runner/run.h"

namespace holdfast::lab {

// On a terminal one line that is replaced every second; elsewhere a line every ten seconds.
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

// A line for the run, and what does not fit the expectations.
void tell(const RunResult& result);

// Whether a store that is the user's own can be used, before clients are started that would find
// it out one by one. Errors: as of Client::connect().
Result<void> try_store(const Scenario& scenario);

// Whether runs can be kept there, before there is one to lose. None named: they can.
Result<void> try_folder(const std::optional<std::string>& out);

// The scenario and the report, in a new folder of the run's own inside `out`: its path. A password
// in the store's URL is left out. Throws.
std::string keep(const RunResult& result, const std::string& out);

struct Reported {
  RunResult result;
  bool kept = true;  // Or nothing was to be kept.
};

// Runs it, with progress unless `quiet`, tells of it, and keeps it: in `out`, or if that is empty
// in ./lab-found when it was not as expected. What cannot be kept is complained of.
Reported run_and_report(const Scenario& scenario, bool quiet, const std::string& out);

}  // namespace holdfast::lab
