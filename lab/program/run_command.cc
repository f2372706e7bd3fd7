#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>

#include "src/cli/options/duration.h"
#include "src/cli/options/values.h"
#include "src/cli/text/text.h"
#include "tests/support/server_network.h"

#include "lab/nemesis/schedule.h"
#include "lab/program/options.h"
#include "lab/program/run_and_report.h"
#include "lab/scenario/files.h"

namespace holdfast::lab {
namespace {

struct RunOrders {
  std::optional<std::uint64_t> seed;
  std::optional<cli::Duration> duration;
  std::optional<std::string> out;
  bool quiet = false;
  std::vector<std::string> paths;
};

// The file, or the installed scenario of that name.
std::string found(const std::string& path) {
  std::error_code failed;
  if (path.find('/') != std::string::npos || std::filesystem::exists(path, failed)) return path;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
  auto shipped =
      (program.parent_path() / HOLDFAST_LAB_SHARE / "scenarios" / path).lexically_normal();
  if (shipped.extension() != ".toml") shipped += ".toml";
  return std::filesystem::exists(shipped, failed) ? shipped.string() : path;
}

Result<Scenario> prepared(const std::string& asked, const RunOrders& orders) {
  const std::string path = found(asked);
  Result<Scenario> scenario = read_scenario_file(path);
  if (!scenario) return scenario;
  scenario->seed = orders.seed.value_or(scenario->seed);
  if (orders.duration && *orders.duration <= scenario->calm) {
    return Error(Errc::kInvalidArgument, "--duration must be longer than the calm at the end, " +
                                             cli::format_duration(scenario->calm));
  }
  scenario->duration = orders.duration.value_or(scenario->duration);
  if (const Result<void> fine = check_again(*scenario); !fine) {
    return Error(Errc::kInvalidArgument, path + ": " + fine.error().message());
  }
  if (const auto wrong = never_strikes(*scenario)) {
    return Error(Errc::kInvalidArgument, path + ": " + *wrong);
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
  RunOrders orders;
  cli::OptionTable table = options_of("run");
  table.value("--seed", orders.seed, read_whole);
  table.value("--duration", orders.duration, cli::read_duration);
  table.value("--out", orders.out, cli::read_text);
  table.flag("-q,--quiet", orders.quiet);
  table.words(orders.paths);
  if (const auto status = parse_options(table, "run", arguments)) return *status;
  if (orders.paths.empty()) return bad_input("run", "name the file of at least one scenario");
  std::vector<Scenario> scenarios;  // Reads all of them before the first run.
  for (const std::string& path : orders.paths) {
    Result<Scenario> scenario = prepared(path, orders);
    if (!scenario) return bad_input("run", scenario.error().message());
    if (const auto usable = try_store(*scenario); !usable) {
      return unusable_store("run", usable.error());
    }
    scenarios.push_back(std::move(*scenario));
  }
  if (const auto usable = try_folder(orders.out); !usable) {
    return bad_input("run", usable.error().message());
  }
  const auto needs_network = [](const Scenario& each) { return each.store.network; };
  if (std::any_of(scenarios.begin(), scenarios.end(), needs_network)) {
    support::keep_network_private();
  }
  bool fine = true;
  bool kept = true;
  for (const Scenario& scenario : scenarios) {
    const Reported told = run_and_report(scenario, orders.quiet, orders.out.value_or(""));
    fine &= told.result.as_expected();
    kept &= told.kept;
  }
  if (!std::cout) return kOwnFailure;
  if (!fine) return kNotAsExpected;
  return kept ? kAsExpected : kOwnFailure;
}

}  // namespace holdfast::lab
