#include <algorithm>
#include <array>
#include <cstdint>
#include <iostream>

#include "src/cli/options/duration.h"
#include "src/cli/options/values.h"
#include "src/cli/text/text.h"
#include "tests/support/server_network.h"

#include "lab/program/options.h"
#include "lab/program/run_and_report.h"
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
  std::size_t failed_servers = 0;
  std::size_t missed_points = 0;
  std::string failed{};  // Why one of its runs had no verdict; empty if all had.
  std::array<std::size_t, kClasses> counts{};

  void add(const RunResult& result) {
    ++runs;
    acquisitions += result.verdict.acquisitions;
    faults += result.faults;
    stuck_processes += result.stuck_processes;
    missed_points += result.missed_a_point() ? 1 : 0;
    failed_servers += result.failed_server.empty() ? 0 : 1;
    for (std::size_t i = 0; i < kClasses; ++i) counts[i] += result.verdict.counts[i];
  }
};

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

// Judges all rounds together: each required violation must occur in at least one of them.
bool fits(const Scenario& cell, const Row& row) {
  if (!row.failed.empty()) return false;
  if (row.runs == 0) return true;  // Reported below the table.
  bool fine = row.stuck_processes == 0 && row.failed_servers == 0 && row.missed_points == 0;
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
  if (row.failed_servers > 0) text += " failed servers " + std::to_string(row.failed_servers);
  if (row.missed_points > 0) text += " points nobody passed";
  if (!row.failed.empty()) return text + (text.empty() ? "" : ", ") + "failed: " + row.failed;
  if (row.runs == 0) return "not run";
  return text.empty() ? "none" : text;
}

// The time of one round, including the start and the end of each run.
std::string length_of(const std::vector<Scenario>& cells) {
  milliseconds length{0};
  for (const Scenario& cell : cells) length += cell.duration + 500ms;
  return cli::format_duration(std::chrono::ceil<std::chrono::seconds>(length));
}

bool must_show_something(const Scenario& cell) {
  return std::find(cell.expect.begin(), cell.expect.end(), Expected::kMust) != cell.expect.end();
}

// The column of names fits the longest one, with a gap behind it.
std::size_t width_of(const std::vector<Scenario>& cells) {
  std::size_t longest = 30;
  for (const Scenario& cell : cells) longest = std::max(longest, cell.name.size());
  return longest + 2;
}

int print_table(const std::vector<Scenario>& cells, const std::vector<Row>& rows) {
  bool fine = true;
  const std::size_t width = width_of(cells);
  std::cout << "\n"
            << padded("cell", width) << padded("runs", 6) << padded("acquisitions", 14)
            << padded("faults", 8) << "violations\n";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool ok = fits(cells[i], rows[i]);
    fine &= ok;
    std::cout << padded(cells[i].name, width) << padded(std::to_string(rows[i].runs), 6)
              << padded(std::to_string(rows[i].acquisitions), 14)
              << padded(std::to_string(rows[i].faults), 8) << violations_of(cells[i], rows[i])
              << (ok ? "" : "   NOT OK") << "\n";
  }
  const auto failed =
      std::count_if(rows.begin(), rows.end(), [](const Row& row) { return !row.failed.empty(); });
  const auto left = std::count_if(
      rows.begin(), rows.end(), [](const Row& row) { return row.runs == 0 && row.failed.empty(); });
  if (left > 0) {
    std::cout << "not run: " << left << " of " << cells.size() << " cells (a round takes "
              << length_of(cells) << ")\n";
  }
  std::cout.flush();
  if (failed > 0 || !std::cout) return kOwnFailure;
  return fine && left == 0 ? kAsExpected : kNotAsExpected;
}

bool needs_network(const Scenario& cell) { return cell.store.network; }

struct MatrixOrders {
  std::optional<std::string> store;
  std::optional<std::string> topology;
  std::optional<std::uint64_t> seed;
  std::optional<std::uint64_t> rounds;
  std::optional<std::uint64_t> minutes;
  std::optional<std::string> out;
  std::optional<std::string> cell;
  bool list = false;
  bool quiet = false;
};

std::optional<int> understand(const Arguments& arguments, MatrixOrders& orders) {
  constexpr std::uint64_t kYear = 60 * 24 * 365;
  cli::OptionTable table = options_of("matrix");
  table.value("--store", orders.store, cli::read_text);
  table.value("--topology", orders.topology, cli::read_text);
  table.value("--seed", orders.seed, read_whole);
  table.value("--rounds", orders.rounds, from_one_to(1'000'000'000));
  table.value("--minutes", orders.minutes, from_one_to(kYear));
  table.value("--out", orders.out, cli::read_text);
  table.value("--cell", orders.cell, cli::read_text);
  table.flag("--list", orders.list);
  table.flag("-q,--quiet", orders.quiet);
  return parse_options(table, "matrix", arguments);
}

Result<Scenario> store_of(const MatrixOrders& orders) {
  const auto& store = orders.store;
  const auto& file = orders.topology;
  if (store.has_value() == file.has_value()) {
    return Error(Errc::kInvalidArgument,
                 "name the store: --store " + listed(shipped_topologies()) +
                     ", or a URL; or describe your own store: --topology FILE");
  }
  if (store) return scenario_on(*store);
  Result<TopologyPointer> topology = read_topology_file(*file);
  if (!topology) return topology.error();
  Scenario scenario;
  scenario.store.topology = *file;
  scenario.topology = *std::move(topology);
  return scenario;
}

void tell_skipped(const std::vector<SkippedCell>& skipped) {
  for (const SkippedCell& cell : skipped) {
    std::cerr << "SKIPPED: " << cell.name << ": " << cell.why << std::endl;
  }
}

// Round after round, until the time is over or all rounds are done.
int run_rounds(const std::vector<Scenario>& cells, const MatrixOrders& orders) {
  const std::string out = orders.out.value_or("");
  const std::int64_t until_ns =
      now_ns() + static_cast<std::int64_t>(orders.minutes.value_or(0)) * 60'000'000'000;
  std::vector<Row> rows(cells.size());
  bool kept = true;
  const auto finish = [&] {
    const int status = print_table(cells, rows);
    return status == kAsExpected && !kept ? kOwnFailure : status;
  };
  const std::uint64_t rounds = orders.rounds.value_or(orders.minutes ? UINT64_MAX : 1);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (orders.minutes && now_ns() >= until_ns) return finish();
      Scenario cell = cells[i];
      // Within the range that a file may have.
      cell.seed = (cell.seed + round) % (1ULL << 63U);
      try {
        const Reported told = run_and_report(cell, orders.quiet, out);
        rows[i].add(told.result);
        kept &= told.kept;
      } catch (const Interrupted&) {
        print_table(cells, rows);
        throw;
      } catch (const std::exception& error) {
        const std::string why = error.what();
        complain(cell.name + ": " + why);
        rows[i].failed = cli::shortened(why.substr(0, why.find('\n')), 100);
      }
    }
  }
  return finish();
}

}  // namespace

int matrix_command(const Arguments& arguments) {
  MatrixOrders orders;
  if (const auto status = understand(arguments, orders)) return *status;
  Result<Scenario> on = store_of(orders);
  if (!on) return bad_input("matrix", on.error().message());
  on->seed = orders.seed.value_or(1);
  std::vector<Scenario> cells = matrix_cells(*on);
  std::vector<SkippedCell> skipped = skipped_cells(*on);
  if (orders.cell) {
    std::erase_if(cells, [&](const Scenario& cell) { return cell.name != *orders.cell; });
    std::erase_if(skipped, [&](const SkippedCell& cell) { return cell.name != *orders.cell; });
    if (!skipped.empty()) {
      return bad_input("matrix", skipped.front().name + " cannot be run: " + skipped.front().why);
    }
    if (cells.empty()) {
      return bad_input("matrix",
                       "there is no cell " + cli::in_quotes(*orders.cell) + "; --list names them");
    }
  }
  if (orders.list) {
    for (const Scenario& cell : cells) std::cout << cell.name << "\n";
    std::cout.flush();
    tell_skipped(skipped);
    std::cerr << "a round takes " << length_of(cells) << std::endl;
    return std::cout ? kAsExpected : kOwnFailure;
  }
  if (const auto usable = try_store(cells.front()); !usable) {
    return unusable_store("matrix", usable.error());
  }
  if (const auto usable = try_folder(orders.out); !usable) {
    return bad_input("matrix", usable.error().message());
  }
  if (std::any_of(cells.begin(), cells.end(), needs_network)) support::keep_network_private();
  // Cells with a required violation run first, in case the time is short.
  std::stable_partition(cells.begin(), cells.end(), must_show_something);
  tell_skipped(skipped);
  if (!orders.quiet) {
    std::cerr << cells.size() << " cells, a round takes " << length_of(cells) << std::endl;
  }
  return run_rounds(cells, orders);
}

}  // namespace holdfast::lab
