#include <filesystem>
#include <fstream>
#include <utility>

#include "src/cli/text/text.h"

#include "lab/scenario/checks.h"
#include "lab/scenario/files.h"
#include "lab/scenario/reader.h"

namespace holdfast::lab {
namespace {

constexpr std::size_t kLongestFile = 1U << 20U;

void read_expectations(const toml::table& table, Scenario& scenario, Complaints& complaints) {
  Reader reader(table, " in [expect]", complaints);
  for (std::size_t i = 0; i < kClasses; ++i) {
    std::string word = "none";
    reader(kClassKeys[i], word, kExpectations);
    scenario.expect[i] = word == "must"  ? Expected::kMust
                         : word == "may" ? Expected::kMay
                                         : Expected::kNone;
  }
  reader.finish();
}

// Finds the topology after [store] has been read.
void find_topology(const toml::table& root, Scenario& scenario, const std::string& file,
                   const OpenTopology& open, Complaints& complaints) {
  const StoreSpec& store = scenario.store;
  const toml::node* table = root.get("store");
  const toml::node& place = table == nullptr ? root : *table;
  if (store.topology.empty()) {
    if (store.kind.empty()) {
      complaints.add(place, "kind in [store] is missing; it may be: " + listed(store_kinds()) +
                                "; or name the file of a topology: topology = \"my.toml\"");
    }
    scenario.topology = shipped_topology(store.kind);
    return;
  }
  if (!store.kind.empty()) {
    complaints.add(place, "kind and topology in [store] do not go together: say one of them");
    return;
  }
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  Result<TopologyPointer> found = open((folder / store.topology).string());
  if (!found) return complaints.add(place, found.error().message());
  scenario.topology = *std::move(found);
}

}  // namespace

void read_body(Reader& reader, Scenario& scenario, Complaints& complaints) {
  const auto read_one = [&](const toml::table& table, const std::string& where, auto& spec) {
    Reader inner(table, where, complaints);
    fields(inner, spec);
    inner.finish();
  };
  if (const toml::table* store = reader.table("store")) {
    read_one(*store, " in [store]", scenario.store);
  }
  if (const toml::table* clients = reader.table("clients")) {
    read_one(*clients, " in [clients]", scenario.clients);
  }
  for (const toml::table* each : reader.tables("workload")) {
    read_one(*each, " in [[workload]]", scenario.workloads.emplace_back());
  }
  for (const toml::table* each : reader.tables("nemesis")) {
    read_one(*each, " in [[nemesis]]", scenario.nemeses.emplace_back());
  }
  if (const toml::table* check = reader.table("check")) {
    Reader inner(*check, " in [check]", complaints);
    check_fields(inner, scenario);
    inner.finish();
  }
  if (const toml::table* expect = reader.table("expect")) {
    read_expectations(*expect, scenario, complaints);
  }
}

Result<toml::table> parse_toml(const std::string& text, const std::string& file) {
  if (text.size() > kLongestFile) {
    return Error(Errc::kInvalidArgument, file + ": longer than such a file can be (1 MiB)");
  }
  if (cli::has_endless_key(text)) {
    return Error(Errc::kInvalidArgument, file + ": a key with too many parts");
  }
  try {
    return toml::table(toml::parse(text, file));
  } catch (const toml::parse_error& error) {
    return Error(Errc::kInvalidArgument, file + ":" + std::to_string(error.source().begin.line) +
                                             ": not TOML: " + std::string(error.description()));
  }
}

Result<std::string> read_text_file(const std::string& path, const std::string& what) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) {
    return Error(Errc::kInvalidArgument, cli::in_quotes(path) + " is a folder, not a " + what);
  }
  std::ifstream file(path);
  std::string text(kLongestFile + 1, '\0');  // One more byte shows that the file is too long.
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    return Error(Errc::kUnavailable, "cannot read the " + what + " " + cli::in_quotes(path));
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

CheckOptions check_options(const Scenario& scenario) {
  CheckOptions options;
  options.wake_ns = std::chrono::nanoseconds(scenario.wake).count();
  options.grace_ns = std::chrono::nanoseconds(scenario.grace).count();
  if (scenario.topology != nullptr) {
    options.linger_ns = std::chrono::nanoseconds(scenario.topology->lingers).count();
    options.extends = scenario.topology->extends;
    options.fenced = scenario.topology->fenced;
  }
  if (!scenario.judge_busy) options.busy_samples = 0;
  return options;
}

Result<Scenario> read_scenario(const std::string& text, const std::string& file,
                               const OpenTopology& open) {
  const Result<toml::table> root = parse_toml(text, file);
  if (!root) return root.error();
  Scenario scenario;
  Complaints complaints(file);
  Reader reader(*root, "", complaints);
  fields(reader, scenario);
  read_body(reader, scenario, complaints);
  reader.finish();
  find_topology(*root, scenario, file, open, complaints);
  check_scenario(scenario, [&](const std::string& what) { complaints.add(*root, what); });
  if (complaints.first()) return *complaints.first();
  return scenario;
}

Result<void> check_again(const Scenario& scenario) {
  const milliseconds duration = scenario.duration;
  std::optional<std::string> wrong;
  if (duration < kDurations.least || duration > kDurations.most) {
    wrong = "duration must be from " + cli::format_duration(kDurations.least) + " to " +
            cli::format_duration(kDurations.most);
  }
  check_scenario(scenario, [&](const std::string& what) {
    if (!wrong) wrong = what;
  });
  if (wrong) return Error(Errc::kInvalidArgument, *wrong);
  return {};
}

Result<Scenario> read_scenario_file(const std::string& path) {
  const Result<std::string> text = read_text_file(path, "scenario");
  if (!text) return text.error();
  return read_scenario(*text, path);
}

}  // namespace holdfast::lab
