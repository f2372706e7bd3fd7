#include <array>
#include <iostream>
#include <map>

#include "src/cli/duration.h"
#include "src/cli/text.h"

#include "lab/program/arguments.h"
#include "lab/program/telling.h"
#include "lab/runner/matrix.h"
#include "lab/scenario/topology_files.h"
#include "lab/scenario/words.h"

namespace holdfast::lab {
namespace {

// One cell over all rounds.
struct Row {
  std::size_t runs = 0;
  std::size_t acquisitions = 0;
  std::size_t faults = 0;
  std::size_t stuck_processes = 0;
  std::array<std::size_t, kClasses> counts{};

  void add(const RunResult& result) {
    ++runs;
    acquisitions += result.verdict.acquisitions;
    faults += result.faults;
    stuck_processes += result.stuck_processes;
    for (std::size_t i = 0; i < kClasses; ++i) counts[i] += result.verdict.counts[i];
  }
};

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

// Over all rounds: what had to be seen, was seen in some of them.
bool fits(const Scenario& cell, const Row& row) {
  if (row.runs == 0) return true;
  bool fine = row.stuck_processes == 0;
  for (std::size_t i = 0; i < kClasses; ++i) fine &= as_expected(cell.expect[i], row.counts[i]);
  return fine;
}

std::string violations_of(const Scenario& cell, const Row& row) {
  std::string text;
  for (std::size_t i = 0; i < kClasses; ++i) {
    if (row.counts[i] == 0 && cell.expect[i] != Expected::kMust) continue;
    text += (text.empty() ? "" : ", ") + std::string(name_of(static_cast<Class>(i))) + " " +
            std::to_string(row.counts[i]);
    if (cell.expect[i] == Expected::kMust) text += " (declared)";
  }
  if (row.stuck_processes > 0) text += " hanging clients " + std::to_string(row.stuck_processes);
  return text.empty() ? "none" : text;
}

int print_table(const std::vector<Scenario>& cells, const std::vector<Row>& rows) {
  bool fine = true;
  std::cout << "\n"
            << padded("cell", 32) << padded("runs", 6) << padded("acquisitions", 14)
            << padded("faults", 8) << "violations\n";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool ok = fits(cells[i], rows[i]);
    fine &= ok;
    std::cout << padded(cells[i].name, 32) << padded(std::to_string(rows[i].runs), 6)
              << padded(std::to_string(rows[i].acquisitions), 14)
              << padded(std::to_string(rows[i].faults), 8) << violations_of(cells[i], rows[i])
              << (ok ? "" : "   NOT OK") << "\n";
  }
  std::cout.flush();
  return fine ? kAsExpected : kNotAsExpected;
}

struct Limits {
  std::uint64_t seed = 1;
  std::uint64_t rounds = 0;  // 0: until the time is over.
  std::int64_t until_ns = 0;
};

Result<Limits> limits_of(const Parsed& parsed) {
  Limits limits;
  std::uint64_t minutes = 5;
  for (const auto& [name, into] :
       {std::pair("--seed", &limits.seed), std::pair("--rounds", &limits.rounds),
        std::pair("--minutes", &minutes)}) {
    const auto text = parsed.value(name);
    if (!text) continue;
    const auto number = parse_number(*text);
    if (!number) {
      return Error(Errc::kInvalidArgument, std::string(name) + ": " + number.error().message());
    }
    *into = *number;
  }
  constexpr std::uint64_t kMost = 60 * 24 * 365;
  if (minutes == 0 || minutes > kMost) {
    return Error(Errc::kInvalidArgument, "--minutes: 1 or more, at most a year");
  }
  if (parsed.has("--rounds") && limits.rounds == 0) {
    return Error(Errc::kInvalidArgument, "--rounds: 1 or more");
  }
  limits.until_ns = now_ns() + static_cast<std::int64_t>(minutes) * 60'000'000'000;
  return limits;
}

Result<Scenario> store_of(const Parsed& parsed) {
  const auto store = parsed.value("--store");
  const auto file = parsed.value("--topology");
  if (store.has_value() == file.has_value()) {
    return Error(Errc::kInvalidArgument,
                 "name the store: --store " + listed(shipped_topologies()) +
                     ", or a URL; or the file of one of your own: --topology FILE");
  }
  if (store) return scenario_on(*store);
  Result<TopologyPointer> topology = read_topology_file(*file);
  if (!topology) return topology.error();
  Scenario scenario;
  scenario.store.topology = *file;
  scenario.topology = *std::move(topology);
  return scenario;
}

}  // namespace

int matrix_command(const Arguments& arguments) {
  const auto parsed = parse(arguments, {{"--store"},
                                        {"--topology"},
                                        {"--minutes"},
                                        {"--rounds"},
                                        {"--seed"},
                                        {"--out"},
                                        {"--cell"},
                                        {"--list", /*has_value=*/false},
                                        {"--quiet", /*has_value=*/false, "-q"}});
  if (!parsed) return bad_input("matrix", parsed.error().message());
  if (!parsed->operands.empty()) {
    return bad_input("matrix", cli::in_quotes(parsed->operands.front()) + " is one too many");
  }
  const Result<Limits> limits = limits_of(*parsed);
  if (!limits) return bad_input("matrix", limits.error().message());
  Result<Scenario> on = store_of(*parsed);
  if (!on) return bad_input("matrix", on.error().message());
  on->seed = limits->seed;
  std::vector<Scenario> cells = matrix_cells(*on);
  if (const auto only = parsed->value("--cell")) {
    std::erase_if(cells, [&](const Scenario& cell) { return cell.name != *only; });
    if (cells.empty()) {
      return bad_input("matrix",
                       "there is no cell " + cli::in_quotes(*only) + "; --list names them");
    }
  }
  if (parsed->has("--list")) {
    for (const Scenario& cell : cells) std::cout << cell.name << "\n";
    return kAsExpected;
  }
  if (const auto usable = try_store(cells.front()); !usable) {
    return unusable_store("matrix", usable.error());
  }
  const std::string out = parsed->value("--out").value_or("");
  if (const auto usable = try_folder(parsed->value("--out")); !usable) {
    return bad_input("matrix", usable.error().message());
  }
  std::vector<Row> rows(cells.size());
  for (std::uint64_t round = 0; limits->rounds == 0 || round < limits->rounds; ++round) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (limits->rounds == 0 && now_ns() >= limits->until_ns) return print_table(cells, rows);
      Scenario cell = cells[i];
      cell.seed += round;
      try {
        rows[i].add(run_and_tell(cell, parsed->has("--quiet"), out));
      } catch (const Interrupted&) {
        print_table(cells, rows);
        throw;
      }
    }
  }
  return print_table(cells, rows);
}

}  // namespace holdfast::lab
