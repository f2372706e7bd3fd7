#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>

#include "src/cli/duration.h"
#include "src/cli/text.h"

#include "lab/program/arguments.h"
#include "lab/report/report.h"
#include "lab/runner/run.h"
#include "lab/scenario/files.h"

namespace holdfast::lab {
namespace {

// One line per second on a terminal, on itself; elsewhere one per ten seconds.
class ProgressLine {
 public:
  explicit ProgressLine(bool wanted) : wanted_(wanted), terminal_(::isatty(STDERR_FILENO) == 1) {}
  void show(const Progress& progress) {
    if (!wanted_ || (!terminal_ && progress.now - last_ < 10s)) return;
    last_ = progress.now;
    clear();
    std::cerr << "  " << progress.now.count() / 1000 << " of " << progress.whole.count() / 1000
              << " s, " << progress.events << " events, " << progress.faults << " faults"
              << (progress.active.empty() ? "" : ": " + cli::shortened(progress.active, 60))
              << (terminal_ ? "" : "\n") << std::flush;
    shown_ = terminal_;
  }

  void clear() {
    if (shown_) std::cerr << "\r\033[K" << std::flush;
    shown_ = false;
  }

 private:
  const bool wanted_;
  const bool terminal_;
  bool shown_ = false;
  milliseconds last_{0};
};

// What the report calls the processes: the clients keep the order in which they were started.
RunFacts facts_of(const RunResult& result, const std::string& replay) {
  RunFacts facts;
  facts.scenario = result.scenario.name;
  facts.seed = result.scenario.seed;
  facts.store = result.store;
  facts.version = result.store_version;
  facts.holdfast = HOLDFAST_VERSION;
  facts.duration_ns = std::chrono::nanoseconds(result.scenario.duration).count();
  facts.replay = replay;
  facts.expected = result.scenario.expect;
  facts.processes[0] = "lab";
  return facts;
}

void keep(const RunResult& result, const std::string& folder) {
  std::filesystem::create_directories(folder);
  const std::string file = folder + "/scenario.toml";
  std::ofstream scenario(file);
  write_scenario(result.scenario, scenario);
  if (!scenario.flush()) throw std::runtime_error("cannot write " + file);
  const RunFacts facts = facts_of(result, "holdfast-lab run " + file);
  const Result<void> done = write_report(folder, {facts, result.history, result.verdict});
  if (!done) throw std::runtime_error(done.error().message());
}

void tell_violations(const RunResult& result, Class kind) {
  const std::size_t seen = result.verdict.count(kind);
  const Expected expected = result.scenario.expected(kind);
  if (as_expected(expected, seen)) return;
  if (expected == Expected::kMust) {
    std::cout << "  " << name_of(kind)
              << ": had to be seen, and was not: the cell is wrong, or too little was tried\n";
    return;
  }
  std::cout << "  " << name_of(kind) << ": expected never, seen " << seen << " times\n";
  std::size_t shown = 0;
  for (const Violation& violation : result.verdict.violations) {
    if (violation.kind != kind || ++shown > 3) continue;
    std::cout << "    " << violation.rule << ": " << violation.message << "\n";
  }
}

void tell(const RunResult& result) {
  const Verdict& verdict = result.verdict;
  const std::string store =
      result.store + (result.store_version.empty() ? "" : " " + result.store_version);
  std::cout << (result.as_expected() ? "ok      " : "NOT OK  ") << result.scenario.name << " ("
            << store << ", seed " << result.scenario.seed << ", "
            << cli::format_duration(result.scenario.duration) << "): " << verdict.acquisitions
            << " acquisitions, " << result.processes << " processes, " << result.faults
            << " faults, " << verdict.refused_writes << " stale writes refused";
  if (result.stalls > 0) std::cout << ", the host stood still " << result.stalls << " times";
  for (std::size_t i = 0; i < kClasses; ++i) {
    if (verdict.counts[i] == 0) continue;
    std::cout << ", " << name_of(static_cast<Class>(i)) << " " << verdict.counts[i];
  }
  std::cout << "\n";
  if (result.stuck_processes > 0) {
    std::cout << "  " << result.stuck_processes << " clients did not end by themselves\n";
  }
  for (std::size_t i = 0; i < kClasses; ++i) tell_violations(result, static_cast<Class>(i));
  std::cout.flush();
}

Result<Scenario> prepared(const std::string& path, const Parsed& parsed) {
  Result<Scenario> scenario = read_scenario_file(path);
  if (!scenario) return scenario;
  if (const auto text = parsed.value("--seed")) {
    const auto seed = parse_number(*text);
    if (!seed) return Error(Errc::kInvalidArgument, "--seed: " + seed.error().message());
    scenario->seed = *seed;
  }
  if (const auto text = parsed.value("--duration")) {
    const auto span = cli::parse_duration(*text);
    if (!span) return Error(Errc::kInvalidArgument, "--duration: " + span.error().message());
    if (*span <= scenario->calm) {
      return Error(Errc::kInvalidArgument, "--duration must be longer than the calm at the end, " +
                                               cli::format_duration(scenario->calm));
    }
    scenario->duration = *span;
  }
  const auto known = [&](const SubjectKind& kind) {
    return kind.name == scenario->clients.subject;
  };
  if (std::find_if(subjects().begin(), subjects().end(), known) == subjects().end()) {
    std::string names;
    for (const SubjectKind& kind : subjects()) names += (names.empty() ? "" : ", ") + kind.name;
    return Error(Errc::kInvalidArgument, path + ": subject " +
                                             cli::in_quotes(scenario->clients.subject) +
                                             " in [clients] is not known; there are: " + names);
  }
  return scenario;
}

}  // namespace

int run_command(const Arguments& arguments) {
  const auto parsed = parse(
      arguments, {{"--seed"}, {"--duration"}, {"--out"}, {"--quiet", /*has_value=*/false, "-q"}});
  if (!parsed) return bad_input("run", parsed.error().message());
  if (parsed->operands.empty()) return bad_input("run", "name the file of a scenario");
  std::vector<Scenario> scenarios;  // All are read before the first runs.
  for (const std::string& path : parsed->operands) {
    Result<Scenario> scenario = prepared(path, *parsed);
    if (!scenario) return bad_input("run", scenario.error().message());
    scenarios.push_back(std::move(*scenario));
  }
  bool fine = true;
  for (const Scenario& scenario : scenarios) {
    ProgressLine line(!parsed->has("--quiet"));
    const RunResult result =
        run(scenario, {own_path(), [&](const Progress& progress) { line.show(progress); }});
    line.clear();
    if (const auto out = parsed->value("--out")) {
      keep(result, *out + "/" + scenario.name + "-" + std::to_string(scenario.seed));
    }
    tell(result);
    fine &= result.as_expected();
  }
  return fine ? kAsExpected : kNotAsExpected;
}

}  // namespace holdfast::lab
