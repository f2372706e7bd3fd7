#include "lab/program/run_and_report.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <utility>

#include "holdfast/client.h"
#include "src/cli/options/config.h"
#include "src/cli/options/duration.h"
#include "src/cli/text/text.h"

#include "lab/program/commands.h"
#include "lab/report/report.h"
#include "lab/scenario/files.h"
#include "lab/scenario/secrets.h"

namespace holdfast::lab {
namespace {

// The report numbers the client processes in the order of their start.
RunFacts facts_of(const RunResult& result, const std::string& replay) {
  RunFacts facts;
  facts.scenario = result.scenario.name;
  facts.seed = result.scenario.seed;
  facts.store = result.store;
  facts.version = result.store_version;
  facts.holdfast = HOLDFAST_VERSION;
  facts.commit = build_commit();
  facts.duration_ns = std::chrono::nanoseconds(result.scenario.duration).count();
  facts.replay = replay;
  facts.expected = result.scenario.expect;
  facts.processes[0] = "lab";
  return facts;
}

void tell_violations(const RunResult& result, Class kind) {
  const std::size_t seen = result.verdict.count(kind);
  const Expected expected = result.scenario.expected(kind);
  if (as_expected(expected, seen)) return;
  if (expected == Expected::kMust) {
    std::cout << "  " << name_of(kind)
              << ": required but never seen: the cell is wrong, or the run was too short\n";
    return;
  }
  std::cout << "  " << name_of(kind) << ": expected never, seen " << seen << " times\n";
  std::size_t shown = 0;
  for (const Violation& violation : result.verdict.violations) {
    if (violation.kind != kind || ++shown > 3) continue;
    std::cout << "    " << violation.rule << ": " << violation.message << "\n";
  }
}

}  // namespace

ProgressLine::ProgressLine(bool wanted, std::string label)
    : wanted_(wanted), terminal_(::isatty(STDERR_FILENO) == 1), label_(std::move(label)) {}

void ProgressLine::show(const Progress& progress) {
  if (!wanted_ || (!terminal_ && progress.now - last_ < 10s)) return;
  last_ = progress.now;
  clear();
  std::cerr << "  " << label_ << ": " << progress.now.count() / 1000 << " of "
            << progress.whole.count() / 1000 << " s, " << progress.events << " events, "
            << progress.faults << " faults"
            << (progress.active.empty() ? "" : ": " + cli::shortened(progress.active, 60))
            << (terminal_ ? "" : "\n") << std::flush;
  shown_ = terminal_;
}

void ProgressLine::clear() {
  if (shown_) std::cerr << "\r\033[K" << std::flush;
  shown_ = false;
}

Result<void> try_store(const Scenario& scenario) {
  const std::string& url = scenario.store.url;
  if (scenario.topology != nullptr || url.empty() || scenario.clients.subject != "holdfast") {
    return {};
  }
  const std::string& options = scenario.store.options;
  const char* mark = url.find('?') == std::string::npos ? "?" : "&";
  Result<Client> client = Client::connect(options.empty() ? url : url + mark + options);
  if (!client) return client.error();
  // Nothing was acquired, so the result of the close does not matter.
  (void)client->close();
  return {};
}

Result<void> try_folder(const std::optional<std::string>& out) {
  if (!out) return {};
  std::error_code problem;
  std::filesystem::create_directories(*out, problem);
  if (!problem && ::access(out->c_str(), W_OK | X_OK) != 0) {
    problem = std::error_code(errno, std::generic_category());
  }
  if (!problem && !std::filesystem::is_directory(*out, problem)) {
    problem = std::make_error_code(std::errc::not_a_directory);
  }
  if (!problem) return {};
  return Error(Errc::kInvalidArgument,
               "--out " + cli::in_quotes(*out) + ": cannot write there: " + problem.message());
}

namespace {

// `name`, or name-2 and so on if it exists, because that may be the only history of a violation.
std::string new_folder(const std::string& out, const std::string& name) {
  std::filesystem::create_directories(out);
  std::string folder = out + "/" + name;
  for (int number = 2; !std::filesystem::create_directory(folder); ++number) {
    folder = out;
    folder.append("/").append(name).append("-").append(std::to_string(number));
  }
  return folder;
}

}  // namespace

std::string keep(const RunResult& result, const std::string& out) {
  const Scenario& scenario = result.scenario;
  std::string folder = new_folder(out, scenario.name + "-" + std::to_string(scenario.seed));
  save_scenario(without_secrets(scenario), folder);
  const RunFacts facts = facts_of(result, "holdfast-lab run " + folder + "/scenario.toml");
  if (!result.server_log_name.empty()) {
    std::ofstream(folder + "/" + result.server_log_name)
        << without(secrets_of(scenario), result.server_log);
  }
  const Result<void> done = write_report(folder, {facts, result.history, result.verdict});
  if (!done) throw std::runtime_error(done.error().message());
  return folder;
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
  if (result.stalls > 0) std::cout << ", the host stalled " << result.stalls << " times";
  for (std::size_t i = 0; i < kClasses; ++i) {
    if (verdict.counts[i] == 0) continue;
    std::cout << ", " << name_of(static_cast<Class>(i)) << " " << verdict.counts[i];
  }
  std::cout << "\n";
  if (result.stuck_processes > 0) {
    std::cout << "  " << result.stuck_processes << " clients hung and had to be killed\n";
  }
  for (const std::size_t index : result.idle) {
    const NemesisSpec& spec = result.scenario.nemeses[index];
    std::cout << "  the nemesis " << spec.kind << " never struck: "
              << (spec.at.empty() ? "other faults hit its target all the time"
                                  : "no process passed " + cli::in_quotes(spec.at) +
                                        "; correct the point's name, or run longer")
              << "\n";
  }
  if (!result.failed_server.empty()) {
    std::cout << "  " << without(secrets_of(result.scenario), result.failed_server) << "\n  ("
              << result.server_log_name << " is kept; the run ended with it)\n";
  }
  for (std::size_t i = 0; i < kClasses; ++i) tell_violations(result, static_cast<Class>(i));
  std::cout.flush();
}

Reported run_and_report(const Scenario& scenario, bool quiet, const std::string& out) {
  ProgressLine line(!quiet, scenario.name);
  RunResult result =
      run(scenario, {own_path(), [&](const Progress& progress) { line.show(progress); },
                     [] { return signal_seen() != 0; }});
  line.clear();
  // Keeps an unexpected result even without --out.
  const std::string where = out.empty() && !result.as_expected() ? "lab-found" : out;
  tell(result);
  if (where.empty()) return {std::move(result), true};
  try {
    const std::string folder = keep(result, where);
    if (!result.as_expected()) {
      std::cout << "  report, timeline and history: " << folder << std::endl;
    }
  } catch (const std::exception& error) {
    complain(scenario.name + " could not be kept: " + error.what());
    return {std::move(result), false};
  }
  return {std::move(result), true};
}

}  // namespace holdfast::lab
