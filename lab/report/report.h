// Reports a run and the checker's findings: as text, as JSON and as a picture.
//
// Guarantee: pure functions of their arguments. Names are escaped for each form; bytes that are not
// UTF-8 become "?" or U+FFFD, never broken XML or JSON.
// Not guaranteed: a text for every violation. The first ones have one; the counts are complete.
//
// Thread-safety: no state. Complexity: O(n log n) for n events.
// Errors: write_report(): kUnavailable if a file cannot be written.
#pragma once

#include <iosfwd>
#include <string>

#include "holdfast/result.h"

#include "lab/checker/checker.h"
#include "lab/history/history.h"
#include "lab/report/facts.h"

namespace holdfast::lab {

// Raise it whenever a field of report.json changes its meaning or disappears.
inline constexpr int kReportVersion = 1;

struct JudgedRun {
  const RunFacts& facts;
  const History& history;
  const Verdict& verdict;
};

void write_markdown(const JudgedRun& run, std::ostream& out);

// One JSON object:
//   format "holdfast-lab-report", version, scenario, seed (text: 64 bits), store {name, version},
//   holdfast, replay, duration_ns, as_expected
//   operations (calls invoked), acquisitions, events, refused_writes, faults {kind: how often}
//   classes [{class, expected, seen, as_expected}]
//   violations [{class, rule, message, lock, owners, begin_ns, end_ns, first, second}]: the two
//   events as lines of the text form; times count from the first event
void write_json(const JudgedRun& run, std::ostream& out);

// report.md, report.json, timeline.svg and history.txt in a folder that exists.
Result<void> write_report(const std::string& folder, const JudgedRun& run);

}  // namespace holdfast::lab
