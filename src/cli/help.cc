#include "src/cli/help.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "holdfast/stores.h"
#include "src/cli/commands.h"
#include "src/cli/exit_codes.h"
#include "src/cli/text/output.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

// One screen of 40 lines.
constexpr std::string_view kFront =
    R"(holdfast - run commands under a distributed lock you can trust

%COMMANDS%

Examples
  holdfast run nightly-backup -- ./backup.sh     the second one waits for the first
  holdfast run --no-wait deploy -- make deploy   the second one ends with 124

Where the locks are kept: --store URL, else HOLDFAST_STORE, else the configuration file, else an
SQLite file of your own, for the processes of this host ('holdfast help stores' tells more):
%STORES%

Every command knows --json, --store URL, --config FILE, -v, -q and --log-format json|logfmt
(of what it says on stderr). A name that begins with '-' stands behind dashes:
holdfast inspect -- -x; holdfast run -- -x -- COMMAND.
)";

constexpr std::string_view kRun = R"(holdfast run [options] NAME -- COMMAND [ARG...]

Runs COMMAND while holding the lock NAME. Waits its turn first, without limit unless told
otherwise. When the lock is lost, the command and everything it started is ended before somebody
else can hold the lock; a second process (the guard) sees to it even if this one is killed.

The lock
  -w, --wait D      wait at most D, then exit with 124; -n, --no-wait: do not wait at all
  --ttl D           length of the lease: how long the lock outlives a dead host (default 30s);
                    it is renewed every third of it
  -s, --shared      together with other --shared holders (-x, --exclusive: with nobody; default)
  --permits n/N     n of N permits of a semaphore; all users of NAME must say the same N
  --reason TEXT     shown to those who look who holds it
  --trace-id ID     the same, for your tracing (default: HOLDFAST_TRACE_ID); COMMAND inherits it
  --min-hold D      keep the lock at least so long, even if the command is faster: the store does
                    that, and this program returns at once (not on a store whose locks end
                    with this program: see 'holdfast doctor')
  --max-hold D      end the command after D (exit status 122)
  --reenter         inside a run that holds NAME: run the command under its lease, with its token;
                    that run ends it at a loss. Elsewhere: take the lock as usual

When the lock is lost
  --on-lost WHAT    term: SIGTERM, then SIGKILL (default); kill: SIGKILL at once;
                    ignore: only say so, and let the command go on unprotected
  --kill-after D    time between SIGTERM and SIGKILL; at most a third of the lease
                    (default: a fifth of it, at most 5s)
  --contain HOW     what keeps its processes together: tree (default), a pid namespace (pidns), or a
                    cgroup; what somebody else starts for it (docker run, systemd-run) escapes all
  --leftover WHAT   processes that outlive the command: end: end them like that (default); wait:
                    wait for them, still holding the lock; leave: give it back and leave them
                    alone (a loss while the command runs ends them all the same)

Output and exit status
  -q, --quiet       no notes, only failures      -v, --verbose  also which store and token
  --json            events as JSON lines on stderr, instead of sentences
  --json-fd N       the same on descriptor N
  --metrics-textfile FILE   replace FILE by figures of this run, for Prometheus' node_exporter
  --exit-max-hold N, --exit-lost N, -E N or --exit-timeout N, --exit-error N
                    instead of 122, 123, 124, 125
  --store URL, --config FILE                        as with every command: see 'holdfast help'

  The command's own status, or 128+n if signal n ended it (also while waiting); 122: --max-hold
  was over; 123: the lock was lost; 124: not acquired in time; 125: Holdfast's own failure; 126,
  127: COMMAND cannot be run, is not found.

The command gets HOLDFAST_NAME, HOLDFAST_TOKEN (the fencing token), HOLDFAST_MODE (exclusive, shared
or permits), HOLDFAST_OWNER, HOLDFAST_DEADLINE (end of the first lease, on the scale of
/proc/uptime), HOLDFAST_STORE, the standard input and, on a terminal, the foreground. Signals are
passed on to it. Ctrl-Z stops the whole job; a job that stays stopped for longer than its lease
loses the lock.

Durations: 250ms, 1.5s, 30s, 2m, 1h30m; a bare number means seconds.

Examples
  holdfast run nightly -- ./backup.sh
  holdfast run --wait 10s --ttl 1m migrate -- ./manage.py migrate
  holdfast run --permits 1/3 gpu -- python train.py       at most three at a time
  holdfast run --min-hold 5m report -- ./report.sh        once in five minutes, on whichever host
)";

constexpr std::string_view kElect =
    R"(holdfast elect [options] NAME -- COMMAND [ARG...]
holdfast elect [options] NAME --observe

Campaigns in the election NAME and runs COMMAND while it leads; then the next candidate does. All
else is as with 'holdfast run': the wait, the guard, what ends COMMAND when the leadership is lost,
signals, output, environment and exit status. Its options but --shared, --permits,
--reenter and --metrics-textfile hold here, too.

  --value TEXT      proclaimed to all who look while it leads, an address say; at most 1024 bytes.
                    COMMAND has it as HOLDFAST_VALUE
  --again           when the leadership was lost: campaign again, instead of exit status 123, also
                    while the store is away. A COMMAND that ends by itself ends that, and so does a
                    signal
  --observe         print who leads now, and each change, until a signal comes
  --count N         ... until N are printed
  --json            with --observe: one object per line: event (leads, nobody), time, name, token,
                    owner, value, missed

Examples
  holdfast elect --again --value "$(hostname):8080" scheduler -- ./scheduler
  holdfast elect --observe --count 1 --json scheduler
)";

constexpr std::string_view kHold = R"(holdfast hold [options] NAME

Takes the lock NAME, prints "held NAME token T" and keeps it until the standard input ends or a
signal comes; then gives it back and exits with 0. 122: --max-hold was over; 123: the lock was lost;
124: not acquired in time; 128+n: signal n came while waiting.

  --wait D, --no-wait, --ttl D, --shared, --permits n/N, --reason TEXT, --trace-id ID
  --max-hold D      give it back after D (exit status 122)
                    as in 'holdfast help run'
  --json            events as JSON lines on stdout

A shell gives background jobs of a script an empty input, which ends at once: keep it open.

Examples
  holdfast hold deploy                        until Ctrl-D or Ctrl-C
  mkfifo f; holdfast hold deploy <f & exec 3>f; ...; exec 3>&-
)";

constexpr std::string_view kAcquire = R"(holdfast acquire [options] NAME

Takes the lock NAME and prints a lease id with which other commands renew and release it. Nobody
renews it in between: it ends after its ttl unless 'holdfast renew' comes first. Whoever has the id
can release the lock: treat it like a key (renew and release read it from a pipe, too: -).

  --ttl D           how long it lasts (default 30s)
  --wait D, --no-wait, --shared, --permits n/N, --reason TEXT, --trace-id ID
                    as in 'holdfast help run'
  --json            an object with lease, name, token, time_left_ms ...

Prefer 'holdfast run' where one command does it all: it renews, and ends what lost its lock.

Example
  lease=$(holdfast acquire --ttl 5m --wait 1m deploy) || exit
  step-one && holdfast renew "$lease" && step-two
  holdfast release "$lease"
)";

constexpr std::string_view kRenew = R"(holdfast renew [options] LEASE

Gives the lease that 'holdfast acquire' printed its full length again. 123: it has ended, somebody
else may hold the lock: stop.

  LEASE             the id; -: read it from the standard input, where 'ps' does not show it

  --ttl D           a new length
  --json            an object with lease, name, token, time_left_ms
)";

constexpr std::string_view kRelease = R"(holdfast release [options] LEASE

Gives back the lock of the lease that 'holdfast acquire' printed. 123: it had ended before, and
somebody else may have held the lock meanwhile. Never frees somebody else's lock.

  LEASE             the id; -: read it from the standard input, where 'ps' does not show it
)";

constexpr std::string_view kLs = R"(holdfast ls [options] [PREFIX]

Lists the locks that are held or waited for and whose names begin with PREFIX. Exit status 1: there
are more, which stderr names (damaged, or written by a later version) or counts (above a million).

  --outcomes        also what finished once-guards leave: nobody runs under them any more
  --json            an array of the objects that 'holdfast inspect --json' prints
)";

constexpr std::string_view kStatus = R"(holdfast status [options] NAME

Is the lock held? Prints by whom, with which token and for how long still. Exit status 0: held;
1: free; 125: nobody can say (the store does not answer, a mistake in the arguments).

  -q, --quiet       print nothing: only the exit status tells
  --json            the object that 'holdfast inspect --json' prints

The answer is old when it is printed: a lock that was free may be taken already. To do something
only if the lock is free, take it: holdfast run --no-wait NAME -- COMMAND.

Example
  holdfast status -q deploy && echo "somebody deploys"
)";

constexpr std::string_view kInspect = R"(holdfast inspect [options] NAME

Who holds the lock, who waits for it in which order: program, host, process, since when, how much
of the lease is left, token and reason; of a leader ('holdfast help elect') what it proclaims. Exit
status 0 also when it is free.

  --json            an object: name, held, token, owner, host, pid, since, time_left_ms ... of the
                    first holder; holders, waiters, last_break; value, where one is proclaimed

What you read may be over already: never decide by it whether you hold a lock.
)";

constexpr std::string_view kWatch = R"(holdfast watch [options] [PREFIX]

Prints what happens to the locks whose names begin with PREFIX, until a signal comes.

  --count N         end after N events
  --json            one object per line: event, time, name, token, owner, host, pid, since ...

Some stores sample: 'holdfast doctor' lists watch-every-change where nothing is missed.
)";

constexpr std::string_view kTop = R"(holdfast top [options] [PREFIX]

Who holds the locks whose names begin with PREFIX, since when and for how long still, and who waits
for how long in which queue; looked at anew every second. On a terminal it is a screen of its own:

  q quit   s next order   r look now   arrows, PgUp, PgDn, Home, End scroll

  --interval D      look so often (default 1s, at least 100ms)
  --sort WHAT       name (default), queue (the longest first), age (who asked first), left (whose
                    lease ends next)
  --once            print what there is, and end
  --plain           print one table after the other; so it is without a terminal, with TERM=dumb
                    and in a build without curses
  --json            one object per line: time, store, locks (each as 'holdfast inspect --json')

FOR counts from the request, by the asker's own clock: a holder's wait is part of it. LEFT is what
is left of the lease. TOKEN is as 'holdfast break' takes it. A narrow terminal has fewer columns.
)";

constexpr std::string_view kBreak = R"(holdfast break [options] NAME --token T

Frees the lock NAME by force from the holder whose grant has token T ('holdfast inspect' shows it),
and leaves a trace of it. A holder that came later is never broken by accident.

The broken holder learns it at its next renewal, within a third of its lease, and may go on until
then: what the lock protects should check tokens. 123: nobody holds that token; nothing changed.

  --token T         the grant to break
  --reason TEXT     shown to the holder and to those who look

Example
  holdfast inspect deploy
  holdfast break deploy --token 17 --reason "host is on fire"
)";

constexpr std::string_view kDoctor = R"(holdfast doctor [options]

Looks at the running store: is it set up to keep its promises, and what are they? Exit status 0:
healthy; 1: a problem was found, or a promise is missing; 125: the store cannot be reached.

  --require A,B     fail unless the store promises: fenced, fair, shared, permits, upgrade,
                    list, watch-every-change, values, multi, survives-restart,
                    survives-failover; and says what to change. A store with a problem
                    fails fenced, survives-restart and survives-failover
  --json            an object: healthy, findings, guarantees, missing
  -q, --quiet       only the problems; of a healthy store nothing

Example
  holdfast doctor --require fenced,survives-restart || exit
)";

constexpr std::string_view kBench = R"(holdfast bench [options] --store URL

Takes and gives back locks as fast as it can, then measures how long a lock takes from the one who
gives it back to the one who waits for it (two clients, two threads, one process).

  --in-flight N     N at a time (default 1), by asynchronous calls that one thread serves
  --threads N       N at a time, each a thread that waits, instead
  --names M         over M names (default N)
  --duration D      of each of the two parts (default 2s)
  --ttl D           length of the leases
  --json            pairs_per_s, acquire_us and handoff_us (each with p50 and p99), errors
)";

constexpr std::string_view kFence =
    R"(holdfast fence check [options] RESOURCE [-- COMMAND [ARG...]]

Looks whether the token is the newest one that RESOURCE was shown, and remembers it in a file: exit
status 0. An older one is refused with 123: another holder has had the lock since, so stop. Put it
in front of what must not be done late, by a script that was paused beyond its lease.

With COMMAND, runs it after the check, and lets nobody with another token in before it ends, so that
check and write are one step; the exit status is COMMAND's own. What COMMAND leaves running keeps
the others out, too.

  --token T         the token (default: HOLDFAST_TOKEN, which 'holdfast run' gives its command)
  --mode M          exclusive, or shared: must be above the exclusive ones, and is not remembered.
                    Permits cannot be fenced. Default: HOLDFAST_MODE for the token of HOLDFAST_TOKEN
                    ('holdfast run' gives both), exclusive for another token
  --file PATH       the record of this resource; PATH.lock beside it is made, too
  --state DIR       a folder with a record for each resource; it must exist. Default: the folder
                    fence beside the default store
  --wait D          wait at most D for the commands of others, then exit with 124
  --json            an object: resource, token, mode, accepted, newest, file
  -q, --quiet       say nothing when it is accepted

A file that is damaged or another resource's admits nobody (125). Keep it as long as what it
protects, on a local disk.

Examples
  holdfast run stock -- sh -c 'slow-sum >new && holdfast fence check stock -- mv new sum'
  holdfast fence check stock --file /srv/stock.fence --token "$token" || exit
)";

constexpr std::string_view kStores = R"(holdfast help stores

Where the locks are kept: --store URL, else HOLDFAST_STORE, else 'store' in the configuration file,
else an SQLite file of your own. 'holdfast ls -v' says which. For example:

%EXAMPLES%
A password or token stays out of the URL and of 'ps': redis://alice@HOST?password_file=PATH,
token_file=PATH where the store has tokens, or a variable:

%VARIABLES%
In a URL, @ : / ? # & % of a password are percent-encoded: %40 for @.

'holdfast doctor --store URL' tells what a store promises, and what to change.
)";

constexpr std::string_view kVersion = R"(holdfast version

Prints the version of the program.
)";

constexpr std::string_view kHelp = R"(holdfast help [COMMAND]

Explains COMMAND; without one, lists the commands. 'holdfast COMMAND --help' does the same.
)";

// In the order of the front page.
constexpr Command kCommands[] = {
    {"run NAME -- COMMAND [ARG...]", "run a command while holding the lock NAME", kRun,
     run_command},
    {"elect NAME -- COMMAND", "run it while leading: of many candidates one does", kElect,
     elect_command},
    {"hold NAME", "hold it until the input closes or a signal comes", kHold, hold_command},
    {"acquire NAME", "take it for a script of several steps; prints a lease id", kAcquire,
     acquire_command},
    {"renew LEASE", "keep that lease", kRenew, renew_command},
    {"release LEASE", "give it back", kRelease, release_command},
    {"status NAME", "is it held? The exit status says: 0 held, 1 free", kStatus, status_command,
     true},
    {"ls [PREFIX]", "who holds what", kLs, ls_command},
    {"inspect NAME", "holders, waiters in order, token, since when, why", kInspect,
     inspect_command},
    {"watch [PREFIX]", "what happens, as it happens", kWatch, watch_command},
    {"top [PREFIX]", "a live view: who holds, who waits, for how long", kTop, top_command},
    {"break NAME --token T", "free a lock by force", kBreak, break_command},
    {"fence check RESOURCE", "let only the newest holder of a lock go on", kFence, fence_command},
    {"doctor", "is this store set up to keep its promises?", kDoctor, doctor_command},
    {"bench", "how fast is it?", kBench, bench_command},
    {"help COMMAND", "more about one of them", kHelp, help_command},
    {"version", "the version of the program", kVersion, version_command},
};

}  // namespace

namespace {

// Two columns, the first of them `width` wide.
std::string row(std::string_view left, std::string_view right, std::size_t width) {
  std::string line = "  " + std::string(left);
  line.resize(std::max(line.size() + 2, width), ' ');
  return line + std::string(right) + "\n";
}

std::vector<std::string> command_names() {
  std::vector<std::string> names{"stores"};
  for (const Command& one : kCommands) names.emplace_back(one.name());
  return names;
}

// Puts the commands, and what the stores declare, in place of each %WORD% that stands for them.
std::string with_lists(std::string_view page) {
  std::string commands, patterns, examples, variables;
  for (const Command& one : kCommands) {
    if (one.begins_group) commands += "\n";
    commands += row("holdfast " + std::string(one.usage), one.summary, 42);
  }
  for (const StoreKind& store : known_stores()) {
    patterns += row(store.pattern.url, store.pattern.about, 54);
    for (const StoreExample& each : store.examples) examples += row(each.url, each.about, 40);
    if (!store.secret_variable.empty()) variables += row(store.secret_variable, store.title, 40);
  }
  std::string text(page);
  for (const auto& [word, with] :
       {std::pair{"%COMMANDS%\n", commands}, std::pair{"%STORES%\n", patterns},
        std::pair{"%EXAMPLES%\n", examples + "\n"}, std::pair{"%VARIABLES%\n", variables + "\n"}}) {
    if (const auto at = text.find(word); at != text.npos) {
      text.replace(at, std::string_view(word).size(), with);
    }
  }
  return text;
}

// Other programs' names for it.
std::string_view meant_by(std::string_view command) {
  constexpr std::pair<std::string_view, std::string_view> kMeant[] = {
      {"state", "status"},      {"held", "status"},
      {"store", "help stores"}, {"lock", "run' or 'acquire"},
      {"flock", "run"},         {"exec", "run"},
      {"with", "run"},          {"unlock", "release"},
      {"free", "release"},      {"list", "ls"},
      {"locks", "ls"},          {"show", "inspect"},
      {"info", "inspect"},      {"get", "inspect"},
      {"who", "inspect"},       {"refresh", "renew"},
      {"extend", "renew"},      {"kill", "break"},
      {"rm", "break"},          {"delete", "break"},
      {"force", "break"},       {"lead", "elect"},
      {"leader", "elect"},      {"check", "doctor"},
      {"monitor", "watch"},     {"take", "acquire"}};
  for (const auto& [word, ours] : kMeant) {
    if (word == command) return ours;
  }
  return {};
}

}  // namespace

const Command* find_command(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kCommands), std::end(kCommands),
                                         [&](const Command& one) { return one.name() == name; });
  return found == std::end(kCommands) ? nullptr : found;
}

std::string help_text(std::string_view command) {
  if (command.empty()) return with_lists(kFront);
  if (command == "stores") return with_lists(kStores);
  const Command* const found = find_command(command);
  return found == nullptr ? "" : std::string(found->page);
}

int print_words(const std::string& list) {
  if (list == "--commands") {
    for (const Command& one : kCommands) {
      print(std::string(one.name()) + ":" + std::string(one.summary) + "\n");
    }
  } else {
    for (const StoreKind& store : known_stores()) {
      for (const std::string_view start : store.url_starts) print(std::string(start) + "\n");
    }
  }
  return flush_output() ? 0 : kExitError;
}

int print_help(const std::string& command) {
  const std::string text = help_text(command);
  if (text.empty()) {
    const std::string_view meant = meant_by(command);
    const std::string near = meant.empty() ? nearest(command, command_names()) : std::string(meant);
    if (command.front() == '-') {
      complain("what is " + in_quotes(command) +
               "? Options stand behind the command: holdfast run [options] NAME -- COMMAND"
               " ('holdfast help' lists the commands)");
      return kExitError;
    }
    complain("there is no command " + in_quotes(command) +
             (near.empty() ? "" : "; did you mean '" + near + "'?") +
             " ('holdfast help' lists them)");
    return kExitError;
  }
  print(text);
  return flush_output() ? 0 : kExitError;
}

}  // namespace holdfast::cli
