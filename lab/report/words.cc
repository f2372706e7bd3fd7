// Writes report.md, which a person reads first.
#include <algorithm>
#include <array>
#include <ostream>
#include <string_view>

#include "lab/checker/ledger.h"
#include "lab/history/text.h"
#include "lab/report/counts.h"
#include "lab/report/report.h"
#include "lab/report/utf8.h"

namespace holdfast::lab {
namespace {

constexpr std::size_t kTold = 10;

// Escapes all markup, for a sentence or a cell of a table.
std::string markdown_text(std::string_view text) {
  std::string escaped;
  for (const char c : valid_utf8(text)) {
    if (std::string_view("\\`*_{}[]<>#|~&!").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// Formats as code that no backtick in the text can end early.
std::string markdown_code(std::string_view text) {
  std::string code = valid_utf8(text);
  std::replace(code.begin(), code.end(), '`', '\'');
  return "`" + code + "`";
}

std::string_view meaning_of(Class kind) {
  constexpr std::array<std::string_view, kClasses> kMeanings = {
      "the record itself is broken",
      "the store granted what no single memory could have",
      "two owners believed to hold at once",
      "the resource took a write with an old token",
      "a call made after its deadline said \"held\"",
      "nobody held it, somebody waited, nothing moved",
      "the lease of a dead holder did not end",
      "it was free, and the waiter was told late"};
  return kMeanings[static_cast<std::size_t>(kind)];
}

void print_facts(const JudgedRun& run, std::ostream& out) {
  const Counts counts = count(run.history);
  out << "| | |\n|---|---|\n"
      << "| store | " << markdown_text(run.facts.store) << " " << markdown_text(run.facts.version)
      << " |\n| Holdfast | " << markdown_text(run.facts.holdfast)
      << (run.facts.commit.empty() ? "" : ", commit " + markdown_text(run.facts.commit))
      << " |\n| seed | " << run.facts.seed << " |\n| duration | "
      << seconds_text(run.facts.duration_ns) << " |\n| operations | " << counts.operations << " by "
      << counts.processes << " processes, " << run.verdict.acquisitions
      << " granted |\n| faults | ";
  if (counts.faults.empty()) out << "none";
  for (std::size_t i = 0; i < counts.faults.size(); ++i) {
    out << (i == 0 ? "" : ", ") << markdown_text(counts.faults[i].first) << " "
        << counts.faults[i].second;
  }
  out << " |\n";
  if (run.verdict.refused_writes > 0) {
    out << "| stale writes refused | " << run.verdict.refused_writes << " |\n";
  }
  if (run.verdict.without_incarnation > 0) {
    out << "| grants beside a loss of memory | " << run.verdict.without_incarnation
        << " (left out of V0) |\n";
  }
  if (run.verdict.busy_judged + run.verdict.busy_undecided > 0) {
    out << "| refused tries looked at | " << run.verdict.busy_judged << ", undecided "
        << run.verdict.busy_undecided << " |\n";
  }
}

void print_verdict(const JudgedRun& run, std::ostream& out) {
  out << "\n## Verdict\n\n| class | what it is | expected | seen | |\n|---|---|---|---:|---|\n";
  for (std::size_t i = 0; i < kClasses; ++i) {
    const Expected expected = run.facts.expected[i];
    const std::size_t seen = run.verdict.counts[i];
    const std::string_view missing = expected == Expected::kMust ? "**not seen**" : "**violated**";
    out << "| " << name_of(static_cast<Class>(i)) << " | " << meaning_of(static_cast<Class>(i))
        << " | " << name_of(expected) << " | " << seen << " | "
        << (as_expected(expected, seen) ? "ok" : missing) << " |\n";
  }
  out << "\n"
      << (as_expected(run.facts.expected, run.verdict) ? "As expected." : "**Not as expected.**")
      << "\n";
}

void print_violations(const JudgedRun& run, std::ostream& out) {
  const auto& violations = run.verdict.violations;
  if (violations.empty()) return;
  const std::size_t told = std::min(kTold, violations.size());
  std::size_t all = 0;
  for (const std::size_t seen : run.verdict.counts) all += seen;
  out << "\n## Violations\n\n";
  if (told < all) out << "The first " << told << " of " << all << ".\n\n";
  for (std::size_t i = 0; i < told; ++i) {
    const Violation& violation = violations[i];
    out << i + 1 << ". **" << name_of(violation.kind) << "** (" << violation.rule
        << "): " << markdown_text(violation.message) << "\n\n   ```\n";
    for (const std::size_t index : {violation.first, violation.second}) {
      out << "   event " << index << ": " << valid_utf8(to_line(run.history.events[index])) << "\n";
      if (violation.first == violation.second) break;
    }
    out << "   ```\n" << (i + 1 < told ? "\n" : "");
  }
}

}  // namespace

void write_markdown(const JudgedRun& run, std::ostream& out) {
  out << "# " << markdown_text(run.facts.scenario) << "\n\n";
  print_facts(run, out);
  print_verdict(run, out);
  out << "\n![holders, waiters, faults and violations over time](timeline.svg)\n";
  print_violations(run, out);
  out << "\n## Again\n\n";
  if (!run.facts.replay.empty()) {
    out << markdown_code(run.facts.replay)
        << " makes the same choices; what the machine does between them is its own.\n\n";
  }
  out << "`report.json` is the same for programs, `history.txt` is what the checker judged.\n";
}

}  // namespace holdfast::lab
