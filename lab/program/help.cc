#include <array>

#include "lab/program/commands.h"
#include "lab/scenario/placeholders.h"
#include "lab/scenario/topology_files.h"
#include "lab/scenario/words.h"

namespace holdfast::lab {
namespace {

struct Page {
  std::string_view command;
  std::string_view text;
};

constexpr std::string_view kFront = R"(holdfast-lab - find the hole in a lock

  holdfast-lab run SCENARIO...      real processes on a real store, faults, and a verdict
  holdfast-lab matrix --store S     every fault that the lab can inject, one after another
  holdfast-lab check HISTORY...     judge a recorded run again
  holdfast-lab exhibits             the classic mistakes with locks and ids, each caught in the act
  holdfast-lab help COMMAND         explain one command

Example
  holdfast-lab run lab/scenarios/*-basics.toml

Exit status: 0 as expected; 1 not as expected; 2 bad input; 125 the lab's own failure; 128+n
ended by signal n, with nothing left behind.
)";

constexpr std::string_view kRun = R"(holdfast-lab run [options] SCENARIO...

Starts the store and the clients that each scenario file names, injects its faults, and judges
the recorded history. Prints whether each class of violation was seen as the scenario expects. A
name without a folder, such as sqlite-basics, is a file in the current folder, or else a scenario
that was installed with the lab.

  --seed N          the seed of the random choices, in place of the file's
  --duration D      the length of the run, in place of the file's
  --out DIR         keep scenario, history and report there, in a folder per run (by default only
                    runs that were not as expected are kept, in ./lab-found)
  -q, --quiet       print no progress

Exit status: 0 all as expected; 1 not as expected (a forbidden violation was seen, or a required
one was not); 2 a scenario that cannot be read; 125 a run that failed.

Example
  holdfast-lab run --seed 7 --duration 1m --out found my.toml
)";

constexpr std::string_view kMatrix =
    R"(holdfast-lab matrix [options] --store STORE | --topology FILE

Injects every fault that the store's topology allows, one cell after the other. Repeats that in
rounds with new seeds until the time is over, then prints one table. A cell that the topology
declares unsafe must show its violation at least once.

  --store STORE     {stores}: the lab starts servers and files of its own; or
                    the URL of your own store: the lab kills, stops and starves its clients and
                    does nothing to the store
  --topology FILE   another kind of store: the file tells how the lab starts and reaches its servers
                    (docs/guide/lab-reference.md explains it)
  --minutes N       how long to run (default: one round, 2 minutes for memory and sqlite, 7 for
                    redis; --list shows it). The last round may end early; then a cell that never
                    ran counts as not as expected. Cells that are declared unsafe come first
  --rounds N        run N rounds of all cells instead
  --seed N          the seed of the first round (default 1)
  --out DIR         as for 'run'; a folder takes some megabytes
  --cell NAME       run only this cell
  --list            print the names of the cells and exit
  -q, --quiet       print no progress

Exit status: as for 'run'; also 1 when a cell was not run, and 125 when a cell failed.

Example
  holdfast-lab matrix --topology my.toml --minutes 10
)";

constexpr std::string_view kCheck = R"(holdfast-lab check [options] HISTORY...

Judges histories that 'run --out' has kept. V0: no correct store can have made these grants; V1:
two owners believed to hold at once; V2: the resource accepted a stale token; V3: a call said
"held" after the deadline; stuck, orphaned, lost wake-up: a waiter did not get the lock in time.

  --wake D          how long a lock may be free while a client waits (default: the value in the
                    history, else 2s)
  --grace D         the same after faults and ended leases (default: as the history, else 10s)
  --lingers D       how long the store may refuse others after an unreleased lease has ended for its
                    client (default: as the history, else 0s)

Exit status: 0 nothing found; 1 violations; 2 not a history; 125 the lab's own failure.
)";

constexpr std::string_view kExhibits = R"(holdfast-lab exhibits [options] [NAME...]

Plays the classic mistakes with locks and ids. Each is a small lock on a real Redis or SQLite, or a
small generator; the output shows what the checker finds, or how many ids came twice, and Holdfast
in the same script beside it. With one NAME it also tells the story.
docs/guide/seven-ways-to-get-it-wrong.md explains them all.

  --list            print the names, and what goes wrong
  --steps           print only what happened in each mistake, step by step
  --out DIR         keep the history and report of each exhibit there

Exit status: 0 each mistake was caught, and Holdfast kept its guarantees; 1 not so; 2 no such
exhibit; 125 an exhibit could not be played, for example without a redis-server.

Example
  holdfast-lab exhibits get-then-del
)";

constexpr std::array<Page, 5> kPages{
    {{"run", kRun}, {"matrix", kMatrix}, {"check", kCheck}, {"exhibits", kExhibits}, {"", kFront}}};

}  // namespace

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const Page& page : kPages) {
    if (!page.command.empty()) names.emplace_back(page.command);
  }
  names.emplace_back("help");
  return names;
}

std::string help_text(std::string_view command) {
  for (const Page& page : kPages) {
    if (page.command != command) continue;
    return filled(page.text, {{"stores", listed(shipped_topologies())}});
  }
  return {};
}

}  // namespace holdfast::lab
