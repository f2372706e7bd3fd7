// Tells what a run was, and what the checker found in it: for people, for programs, for the eye.
//
// Guarantee: pure functions of what they are given. Names are escaped for each form; bytes that
// are no UTF-8 come out as "?" or U+FFFD, never as broken XML or JSON.
// Not guaranteed: all violations in words (the first ones are; the counts are complete).
//
// Thread-safety: no state. Complexity: O(n log n) for n events.
// Errors: write_report() says kUnavailable where a file cannot be written.
#pragma once

#include <iosfwd>
#include <string>

#include "holdfast/result.h"

#include "lab/checker/checker.h"
#include "lab/history/history.h"
#include "lab/report/facts.h"

namespace holdfast::lab {

// Raised whenever a field of report.json changes its meaning or goes away.
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
