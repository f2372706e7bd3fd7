#include <algorithm>

#include "src/cli/duration.h"
#include "src/cli/text.h"

#include "lab/program/arguments.h"
#include "lab/program/telling.h"
#include "lab/scenario/files.h"

namespace holdfast::lab {
namespace {

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
    if (const auto usable = try_store(*scenario); !usable) {
      return unusable_store("run", usable.error());
    }
    scenarios.push_back(std::move(*scenario));
  }
  const std::string out = parsed->value("--out").value_or("");
  if (const auto usable = try_folder(parsed->value("--out")); !usable) {
    return bad_input("run", usable.error().message());
  }
  bool fine = true;
  for (const Scenario& scenario : scenarios) {
    const RunResult result = run_and_tell(scenario, parsed->has("--quiet"), out);
    fine &= result.as_expected();
  }
  return fine ? kAsExpected : kNotAsExpected;
}

}  // namespace holdfast::lab
