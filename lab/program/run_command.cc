#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>

#include "src/cli/duration.h"
#include "src/cli/text.h"

#include "lab/history/text.h"
#include "lab/program/arguments.h"
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

void keep(const RunResult& result, const std::string& folder) {
  std::filesystem::create_directories(folder);
  std::ofstream scenario(folder + "/scenario.toml");
  write_scenario(result.scenario, scenario);
  std::ofstream history(folder + "/history.txt");
  write(result.history, history);
  std::ofstream verdict(folder + "/verdict.txt");
  print(result.verdict, verdict);
  if (!scenario.flush() || !history.flush() || !verdict.flush()) {
    throw std::runtime_error("cannot write into " + folder);
  }
}

void tell(const RunResult& result) {
  const Verdict& verdict = result.verdict;
  const bool fine = result.as_expected();
  std::cout << (fine ? "ok      " : "NOT OK  ") << result.scenario.name << " (" << result.store
            << ", seed " << result.scenario.seed << ", "
            << cli::format_duration(result.scenario.duration) << "): " << verdict.acquisitions
            << " acquisitions, " << result.processes << " processes, " << result.faults
            << " faults, " << verdict.refused_writes << " stale writes refused";
  if (result.stalls > 0) std::cout << ", the host stood still " << result.stalls << " times";
  for (const Judgement& each : result.judgements) {
    if (each.seen > 0) std::cout << ", " << name_of(each.kind) << " " << each.seen;
  }
  std::cout << "\n";
  if (result.stuck_processes > 0) {
    std::cout << "  " << result.stuck_processes << " clients did not end by themselves\n";
  }
  for (const Judgement& each : result.judgements) {
    const std::string text = complaint(each);
    if (text.empty()) continue;
    std::cout << "  " << text << "\n";
    std::size_t shown = 0;
    for (const Violation& violation : verdict.violations) {
      if (violation.kind != each.kind || ++shown > 3) continue;
      std::cout << "    " << violation.rule << ": " << violation.message << "\n";
    }
  }
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
  const auto known = [&](const SubjectKind& kind) { return kind.name == scenario->clients.subject; };
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
