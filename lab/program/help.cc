#include <array>

#include "lab/program/commands.h"

namespace holdfast::lab {
namespace {

struct Page {
  std::string_view command;
  std::string_view text;
};

constexpr std::string_view kFront = R"(holdfast-lab - find the hole in a lock

  holdfast-lab run SCENARIO...      real processes on a real store, faults, and a verdict
  holdfast-lab check HISTORY...     judge what a run has recorded, once more
  holdfast-lab help COMMAND         more about one of them

Example
  holdfast-lab run lab/scenarios/redis-basics.toml

Exit status: 0 as expected; 1 not as expected; 2 bad input; 125 the lab's own failure.
)";

constexpr std::string_view kRun = R"(holdfast-lab run [options] SCENARIO...

Starts the store and the clients that each scenario file names, does to them what it says, and
judges what was recorded. Prints how each class of violation fits what the scenario expects.

  --seed N          other choices than the file's seed makes
  --duration D      longer or shorter than the file says
  --out DIR         keep scenario, history and report there, in a folder per run
  -q, --quiet       no progress

Exit status: 0 all as expected; 1 not (a violation that must not be, or one that had to be seen
and was not); 2 a scenario that cannot be read; 125 a run that failed.

Example
  holdfast-lab run --seed 7 --duration 1m --out found lab/scenarios/redis-basics.toml
)";

constexpr std::string_view kCheck = R"(holdfast-lab check [options] HISTORY...

Judges histories, as 'run --out' keeps them. V0: the store's grants are no legal history; V1: two
owners believed to hold at once; V2: the resource accepted a stale token; V3: a call said "held"
after the deadline; stuck, orphaned, lost wake-up: nothing moved.

  --wake D          how long a lock may be free while somebody waits (default 2s)
  --grace D         the same after faults and ended leases (default 10s)

Exit status: 0 nothing found; 1 violations; 2 not a history; 125 own failure.
)";

constexpr std::array<Page, 3> kPages{{{"run", kRun}, {"check", kCheck}, {"", kFront}}};

}  // namespace

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const Page& page : kPages) {
    if (!page.command.empty()) names.emplace_back(page.command);
  }
  names.emplace_back("help");
  return names;
}

std::string_view help_text(std::string_view command) {
  for (const Page& page : kPages) {
    if (page.command == command) return page.text;
  }
  return {};
}

}  // namespace holdfast::lab
