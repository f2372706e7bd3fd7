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
  holdfast-lab matrix --store S     every fault that can be done to a store, in turns
  holdfast-lab check HISTORY...     judge what a run has recorded, once more
  holdfast-lab exhibits             the classic mistakes with locks, each caught in the act
  holdfast-lab help COMMAND         more about one of them

Example
  holdfast-lab run lab/scenarios/*-basics.toml

Exit status: 0 as expected; 1 not as expected; 2 bad input; 125 the lab's own failure; 128+n
ended by signal n, with nothing left behind.
)";

constexpr std::string_view kRun = R"(holdfast-lab run [options] SCENARIO...

Starts the store and the clients that each scenario file names, does to them what it says, and
judges what was recorded. Prints how each class of violation fits what the scenario expects. A
name without a folder, such as sqlite-basics, is a file here, or else a scenario that was
installed with the lab.

  --seed N          other choices than the file's seed makes
  --duration D      longer or shorter than the file says
  --out DIR         keep scenario, history and report there, in a folder per run (otherwise
                    only of runs that were not as expected, in ./lab-found)
  -q, --quiet       no progress

Exit status: 0 all as expected; 1 not (a violation that must not be, or one that had to be seen
and was not); 2 a scenario that cannot be read; 125 a run that failed.

Example
  holdfast-lab run --seed 7 --duration 1m --out found my.toml
)";

constexpr std::string_view kMatrix =
    R"(holdfast-lab matrix [options] --store STORE | --topology FILE

Runs every fault that can be done to the store, one cell after the other, round after round with
other seeds, until the time is over; then prints one table. A cell that the store's topology
declares unsafe must be seen to violate there, at least once.

  --store STORE     {stores}: servers and files of the lab's own; or the URL
                    of a store of yours, whose clients are killed, stopped and starved, and nothing
                    else
  --topology FILE   another kind of store, with servers of the lab's own: how they are started and
                    reached (docs/guide/lab-reference.md explains it)
  --minutes N       how long (otherwise one round: 2 minutes for memory and sqlite, 7 for redis;
                    --list tells); the round that has begun is not finished, and what was not run
                    is not as expected. Cells that are declared unsafe come first
  --rounds N        that many rounds of all cells instead
  --seed N          of the first round (default 1)
  --out DIR         as of 'run'; a folder takes some megabytes
  --cell NAME       only that one
  --list            name the cells and end
  -q, --quiet       no progress

Exit status: as of 'run'; 1 also when a cell was not run, 125 when one failed.

Example
  holdfast-lab matrix --topology my.toml --minutes 10
)";

constexpr std::string_view kCheck = R"(holdfast-lab check [options] HISTORY...

Judges histories, as 'run --out' keeps them. V0: the store's grants are no legal history; V1: two
owners believed to hold at once; V2: the resource accepted a stale token; V3: a call said "held"
after the deadline; stuck, orphaned, lost wake-up: nothing moved.

  --wake D          how long a lock may be free while somebody waits (otherwise as the history
                    says that the run was judged, or 2s)
  --grace D         the same after faults and ended leases (as the history says, or 10s)
  --lingers D       how long the store may go on refusing others after a lease that nobody gave back
                    has ended for its client (as the history says, or 0s)

Exit status: 0 nothing found; 1 violations; 2 not a history; 125 own failure.
)";

constexpr std::string_view kExhibits = R"(holdfast-lab exhibits [options] [NAME...]

Plays the classic mistakes with locks, each a small lock of its own on a real Redis or SQLite, and
shows what the checker says of each; beside it the same script with Holdfast's own lock. With one
NAME it tells the story too. docs/guide/seven-ways-to-get-it-wrong.md is the tour.

  --list            their names, and what goes wrong
  --steps           what happened in each mistake, step by step, and nothing else
  --out DIR         keep history and report of each there

Exit status: 0 each caught, and Holdfast as promised; 1 not so; 2 no such exhibit; 125 it could
not be played: no redis-server, for example.

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
