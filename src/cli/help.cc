#include "src/cli/help.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>

#include "holdfast/stores.h"
#include "src/cli/commands.h"
#include "src/cli/exit_codes.h"
#include "src/cli/options/options.h"
#include "src/cli/options/settings.h"
#include "src/cli/other_names.h"
#include "src/cli/text/output.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

// One screen of 40 lines.
constexpr std::string_view kFront =
    R"(holdfast - run commands under a distributed lock you can trust

%COMMANDS%

Examples
  holdfast run nightly-backup -- ./backup.sh     a second run waits for the first
  holdfast run --no-wait deploy -- make deploy   a second run ends with 124

The store of the locks: --store URL, else HOLDFAST_STORE, else the configuration file, else an
SQLite file of your own, for the processes of this host. 'holdfast help stores' explains them:
%STORES%
All commands have --json, --store URL, --config FILE, -v, -q, --log-format json|logfmt (of stderr).
Put a name that begins with '-' after dashes: holdfast inspect -- -x; holdfast run -- -x -- COMMAND.
)";

constexpr std::string_view kRun = R"(holdfast run [options] NAME -- COMMAND [ARG...]

Waits for the lock NAME, without limit by default, and runs COMMAND while it holds the lock. If the
lock is lost, COMMAND and everything it started are ended before anybody else can hold the lock. A
second process, the guard, does this even if this program is killed.

The lock
  -w, --wait D      wait at most D, then exit with 124; -n, --no-wait: do not wait at all
  --ttl D           length of the lease, renewed every third of it (default 30s): the lock outlives
                    a dead host by this time at most
  -s, --shared      hold it together with other shared holders; -x, --exclusive: alone (default)
  --permits n/N     take n of N permits of a semaphore; all users of NAME must give the same N
  --reason TEXT     a text that ls, inspect and top show
  --trace-id ID     an id of your tracing that they show, at most 128 characters without spaces
                    (default: HOLDFAST_TRACE_ID); COMMAND inherits it
  --min-hold D      keep the lock for at least D (24h at most), even if COMMAND is faster: the store
                    keeps it, and this program returns at once (not on a store whose locks end with
                    this program: see 'holdfast doctor')
  --max-hold D      end COMMAND after D (exit status 122)
  --lock-delay D    after a loss or a crash keep others out for D more, beyond the lease
  --reenter         inside a run that holds NAME: run COMMAND under its lease, with its token; that
                    run ends it at a loss. Elsewhere: take the lock as usual

When the lock is lost
  --on-lost WHAT    end COMMAND by SIGTERM, then SIGKILL (term, the default) or by SIGKILL at once
                    (kill); or only report it, and let COMMAND continue unprotected (ignore)
  --kill-after D    time between SIGTERM and SIGKILL; at most a third of the lease
                    (default: a fifth of it, at most 5s)
  --contain HOW     the way to keep COMMAND's processes together: tree (default), a pid namespace
                    (pidns), or a cgroup; none covers processes that others start for COMMAND
                    (docker run, systemd-run)
  --leftover WHAT   processes that outlive COMMAND: end: end them as at a loss (default); wait:
                    wait for them and hold the lock; leave: release the lock and leave them alone
                    (a loss while COMMAND runs ends them in any case)

Output and exit status
  -q, --quiet       print failures only; -v, --verbose: also print store and token
  --json            print events as JSON lines on stderr, instead of sentences
  --json-fd N       print them on descriptor N
  --metrics-textfile FILE   replace FILE by metrics of this run, for Prometheus' node_exporter
  --exit-max-hold N, --exit-lost N, -E N or --exit-timeout N, --exit-error N
                    exit with N instead of 122, 123, 124, 125
  --store URL, --config FILE                        as with every command: see 'holdfast help'

  COMMAND's own status, or 128+n if signal n ended it (also during the wait); 122: --max-hold was
  over; 123: the lock was lost; 124: not acquired in time; 125: Holdfast itself failed; 126:
  COMMAND cannot be run; 127: COMMAND was not found.

COMMAND gets HOLDFAST_NAME, HOLDFAST_TOKEN (the fencing token), HOLDFAST_MODE (exclusive, shared or
permits), HOLDFAST_OWNER, HOLDFAST_DEADLINE (end of the first lease, on the scale of /proc/uptime),
HOLDFAST_STORE, the standard input and, on a terminal, the foreground. Signals are passed on to it.
Ctrl-Z stops the whole job; a job that stays stopped for longer than its lease loses the lock.

Durations: 250ms, 1.5s, 30s, 2m, 1h30m; a bare number means seconds.

Examples
  holdfast run nightly -- ./backup.sh
  holdfast run --wait 10s --ttl 1m migrate -- ./manage.py migrate
  holdfast run --permits 1/3 gpu -- python train.py       at most three at a time
  holdfast run --min-hold 5m report -- ./report.sh        once in five minutes, on any host
)";

constexpr std::string_view kElect =
    R"(holdfast elect [options] NAME -- COMMAND [ARG...]
holdfast elect [options] NAME --observe

Campaigns in the election NAME and runs COMMAND while it leads; then the next candidate leads. The
wait, the guard, a loss, signals, output, environment and exit status are those of 'holdfast run'.
So are the options, except --shared, --permits, --reenter and --metrics-textfile.

  --value TEXT      a text that everybody can read while this candidate leads, an address for
                    example; at most 1024 bytes. COMMAND gets it as HOLDFAST_VALUE
  --again           after a loss, campaign again instead of ending with 122 or 123, also while the
                    store is unavailable. The end of COMMAND ends the candidacy, and so does a
                    signal
  --observe         print who leads now, and each change, until a signal arrives
  --count N         end after N changes (with --observe)
  --json            with --observe: one object per line: event (leads, nobody), time, name, token,
                    owner, value, missed

Examples
  holdfast elect --again --value "$(hostname):8080" scheduler -- ./scheduler
  holdfast elect --observe --count 1 --json scheduler
)";

constexpr std::string_view kHold = R"(holdfast hold [options] NAME

Takes the lock NAME, prints "held NAME token T", holds the lock until the standard input ends or a
signal arrives, then releases it and exits with 0. 122: --max-hold was over; 123: the lock was lost;
124: not acquired in time; 128+n: signal n arrived during the wait.

  --wait D, --no-wait, --ttl D, --shared, --exclusive, --permits n/N, --reason TEXT,
  --trace-id ID, --lock-delay D   as in 'holdfast help run'
  --max-hold D      release the lock after D (exit status 122)
  --json            print events as JSON lines on stdout

A shell gives background jobs of a script an empty input, which ends at once: keep it open.

Examples
  holdfast hold deploy                        until Ctrl-D or Ctrl-C
  mkfifo f; holdfast hold deploy <f & exec 3>f; ...; exec 3>&-
)";

constexpr std::string_view kAcquire = R"(holdfast acquire [options] NAME

Takes the lock NAME and prints a lease id. Other commands renew and release the lock with this id.
Nobody renews it between: it ends after its ttl unless you call 'holdfast renew' first. Anybody who
has the id can release the lock: treat it like a key. The argument '-' reads it from a pipe.

  --ttl D           length of the lease (default 30s)
  --wait D, --no-wait, --shared, --exclusive, --permits n/N, --reason TEXT, --trace-id ID
                    as in 'holdfast help run'
  --json            print an object with lease, name, token, time_left_ms ...

Prefer 'holdfast run' where one command does it all: it renews, and at a loss it ends the command.

Example
  lease=$(holdfast acquire --ttl 5m --wait 1m deploy) || exit
  step-one && holdfast renew "$lease" && step-two
  holdfast release "$lease"
)";

constexpr std::string_view kRenew = R"(holdfast renew [options] LEASE

Gives the lease that 'holdfast acquire' printed its full length again. 123: the lease has ended, and
somebody else may hold the lock: stop.

  LEASE             the id; -: read it from the standard input, where 'ps' does not show it

  --ttl D           a new length
  --json            print an object with lease, name, token, time_left_ms
)";

constexpr std::string_view kRelease = R"(holdfast release [options] LEASE

Releases the lock of the lease that 'holdfast acquire' printed. 123: the lease had ended before, and
somebody else may have held the lock meanwhile. It never releases somebody else's lock.

  LEASE             the id; -: read it from the standard input, where 'ps' does not show it
)";

constexpr std::string_view kLs = R"(holdfast ls [options] [PREFIX]

Lists the locks that are held or waited for and whose names begin with PREFIX. Exit status 1: there
are more; stderr names them (damaged, or of a later version) or counts them (above a million).

  --outcomes        also list the locks that finished once-guards leave; nobody works under them
  --json            print an array of the objects that 'holdfast inspect --json' prints
)";

constexpr std::string_view kStatus = R"(holdfast status [options] NAME

Tells whether the lock is held, by whom, with which token and for how long. Exit status 0: held, or
closed by a lock-delay; 1: free; 125: unknown (the store does not answer, or an argument is wrong).

  -q, --quiet       print nothing: only the exit status tells
  --json            print the object that 'holdfast inspect --json' prints

The answer may be out of date when it is printed: a free lock may be taken already. To act only
while the lock is free, take it: holdfast run --no-wait NAME -- COMMAND.

Example
  holdfast status -q deploy && echo "somebody deploys"
)";

constexpr std::string_view kInspect = R"(holdfast inspect [options] NAME

Shows who holds the lock and who waits for it, in order: program, host, process, since when, time
left, token and reason. For a leader ('holdfast help elect') it shows the proclaimed value. The exit
status is 0 even if the lock is free.

  --json            print an object: name, held, token, owner, host, pid, since, time_left_ms ... of
                    the first holder; holders, waiters, last_break; the proclaimed value, if any

The answer may be out of date: never use it to decide whether you hold a lock.
)";

constexpr std::string_view kWatch = R"(holdfast watch [options] [PREFIX]

Prints events of the locks whose names begin with PREFIX, until a signal arrives.

  --count N         end after N events
  --json            one object per line: event, time, name, token, owner, host, pid, since ...

Some stores sample and miss short holds. Where 'holdfast doctor' lists watch-every-change, watch
tells each change, or prints 'missed' when a lost connection may have cost some.
)";

constexpr std::string_view kTop = R"(holdfast top [options] [PREFIX]

Shows the locks whose names begin with PREFIX: who holds them, since when and for how long, and who
waits. It looks again every second. On a terminal it is a full-screen view:

  q quit   s next order   r look now   arrows, PgUp, PgDn, Home, End scroll

  --interval D      time between two looks (default 1s, at least 100ms)
  --sort WHAT       order: name (default), queue (longest first), age (oldest request first), left
                    (next lease end first)
  --once            print one table, and end
  --plain           print one table after the other; the default without a terminal, with TERM=dumb
                    and in a build without curses
  --json            one object per line: time, store, locks (each as 'holdfast inspect --json')

FOR counts from the request, by the requester's clock, so a holder's wait is included. LEFT is the
rest of the lease. 'holdfast break' takes TOKEN as shown. A narrow terminal has fewer columns.
)";

constexpr std::string_view kBreak = R"(holdfast break [options] NAME --token T

Ends by force the grant of the lock NAME that has token T ('holdfast inspect' shows it), and leaves
a trace of it. A later holder is never broken by accident.

The broken holder learns of it at its next renewal, within a third of its lease, and may continue
until then: the protected resource should check tokens. 123: no holder has that token; nothing
changed.

  --token T         the token of the grant
  --reason TEXT     a text for the holder, which inspect also shows

Example
  holdfast inspect deploy
  holdfast break deploy --token 17 --reason "host is on fire"
)";

constexpr std::string_view kDoctor = R"(holdfast doctor [options] [URL]

Examines the running store, URL or that of --store: its set-up and its guarantees. Exit status 0:
healthy; 1: there is a problem, or a required guarantee is missing; 125: it cannot be reached.

  --require A,B     fail, and say what to change, unless the store guarantees: fenced, fair, shared,
                    permits, upgrade, list, watch-every-change, values, multi, survives-restart,
                    survives-failover. A store with a problem fails fenced, survives-restart and
                    survives-failover
  --json            print an object: healthy, findings, guarantees, missing
  -q, --quiet       print only the problems

Example
  holdfast doctor --require fenced,survives-restart || exit
)";

constexpr std::string_view kStore = R"(holdfast store init [options]

Makes the tables of the store, where they are not there, and checks their format. PostgreSQL and
MySQL have such tables. The first client makes them, too, unless the store's URL has create=no.
Any other store has nothing to make: the command says so. Exit status 0: the store has what it
needs; 125: it has not, and stderr tells why.

  --print-sql       print the SQL that makes the tables, for psql or mariadb; contact no server
  --json            print an object: place, format, created; null, null and false: nothing to make
  -q, --quiet       print nothing: only the exit status tells

Examples
  holdfast store init --store postgres://admin@db.example/app
  holdfast store init --print-sql --store postgres://db.example/app | psql app
)";

constexpr std::string_view kFailover = R"(holdfast failover status|switch|return [options]

Shows which store of a failover: chain is used, or has another one used. A switch takes a lease or
more: all holders lose their locks first, and nothing is granted meanwhile. It needs the last store
of the chain, and the one that is asked for. Exit status 0: the chain is as asked for, or was
already; 125: it is not, and stderr tells why.

  status            say which store is used, and in which epoch; change nothing
  switch [PLACE]    use that store of the chain, from 1 (default: the next one)
  return            use the first store again; nothing else does that
  --json            print an object: place, stores, store, epoch, draining
  -q, --quiet       print nothing: only the exit status tells

Examples
  holdfast failover status --store "$HOLDFAST_STORE"
  holdfast failover return
)";

constexpr std::string_view kId =
    R"(holdfast id init|next|decode|workers|status|floor [options] [NAME|ID]

Gives ids that grow with time and never repeat: 63 bits of time, worker and sequence. Each process
takes a free worker number, which it holds by a lease in the store of the locks ('holdfast help
stores'). Hosts that share ids need one store: the default one is a file of this user and host.

  init NAME         make the file, or the records in the store, of NAME, once
  next NAME         print the next id
  decode ID         print the parts of an id: a number needs the layout, a UUID or ULID does not
  workers NAME      say who holds which worker number, since when, and until when time is reserved
  status NAME       say the next number of segments, and why they are stopped
  floor NAME        after a loss of data, give no number of segments up to --floor N again

  --layout L        init and decode: a preset (twitter, twitter-machine-first, leaf, uidgenerator,
                    sonyflake, javascript), or fields such as "time:41 worker:10 sequence:12", which
                    are the default of init; their time begins in 2026. next: refuse ids of another
                    layout
  --policy P        init: when the wall clock goes back: logical (default), refuse, wait:5ms,
                    step:1024 or extension:2:5ms; after a space borrow:10ms, which takes ids from
                    the future where a unit is full. decode: tells how far a time may be ahead
  --workers A-B     init: the worker numbers (default: 0-63); those of a store begin at 0
  --store URL       the store of the ids, in place of that of the locks
  --segments        init: small numbers from a counter, 1, 2, 3 ... with gaps, in place of ids with
                    a time
  --counter         init and next: NAME is a counter that other programs use, too: a key, a
                    sequence, a table with one row, a folder of sequential nodes
  --require durable  refuse a store that may forget what it has answered
  --floor N         floor: at least the highest number that was ever given
  --reason TEXT     floor: why, for those who find it later
  --file PATH       a file of this host, in place of NAME in a store: no lease, and each file needs
                    worker numbers of its own. decode: the id's file, in place of a layout
  --count N         next: so many ids, one a line (default: 1)
  --uuid            next: a UUID of version 7; no NAME
  --ulid            next: a ULID; no NAME
  --json            print objects
  -q, --quiet       print nothing but ids

Exit status 0: done; 125: it cannot be done, and stderr tells why.

Examples
  holdfast id init orders
  holdfast id next orders --count 3
  holdfast id decode 1541815603606036480 --layout twitter
  holdfast id init invoices --store postgres://db/app --segments
)";

constexpr std::string_view kServe = R"(holdfast serve [options]

Runs Holdfast's own lock service on this host until a signal ends it. Clients use it as the store
holdfast://127.0.0.1:7420. Each grant is in a journal on the disk before it is answered. So a server
that is killed and started again keeps every grant and token. It prints where the journal lies and
how to connect. After SIGTERM, or 'holdfast server drain', it answers what is under way, and ends
with 0. SIGHUP makes it read the users and the certificate again; without either it ends.

  --listen ADDR     the address and port (default 127.0.0.1:7420). Beyond loopback it needs --users,
                    and TLS or --plaintext. Port 0: the system chooses one
  --http ADDR       HTTP at ADDR, too: locks as JSON, /metrics, /healthz, /readyz (default: none)
  --http-host NAMES  names by which HTTP clients may call this server, with ',' between them
  --users FILE      a line for each user: NAME password:HASH acquire:orders/* observe:* break:NAME.
                    Without it everybody who reaches the port may do everything
  --connection-rate N  each connection may ask for N locks a second (default: no limit)
  --tls-cert FILE   the server's certificate chain, PEM; it may hold the key, too
  --tls-key FILE    its key, PEM. Clients then write holdfasts://USER@HOST
  --tls-ca FILE     the authority of the other servers on a journal, PEM (default: the system's)
  --plaintext       listen beyond loopback without TLS, where the network itself encrypts
  --data DIR        the folder of the journal, on a local disk; it is made. Default: the folder
                    server beside the default store; root's is /var/lib/holdfast/server. One server
                    at a time uses a folder. A configuration file has the whole path
  --journal URL     its kind and place: sqlite:DIR, as --data; etcd://HOST,HOST/PREFIX, which
                    several servers share: one leads, the others stand by; memory: nothing survives,
                    for tests
  --shards N        a new journal has N shards, 64 at most (default: 8 in etcd, else 1). In etcd
                    each has its own leader, and the servers share them evenly. The number is kept
                    for good. Several shards cannot take several locks in one step
  --advertise ADDR  the address that servers on a shared journal tell of this one; by default that
                    of --listen
  --config FILE     a TOML file whose table [serve] has options with '_' for '-': listen, http,
                    http_host, data, journal, shards, advertise, users, tls_cert, tls_key, tls_ca,
                    plaintext, connection_rate, log_format. Without it the usual files are read
  --clients-stopped  say that no client of this journal runs any more; a restored copy then grants
                    at once, and not after 24 h
  --json            print an object when it serves: url, address, http, journal, journal_id,
                    new_journal, term, locks, restored, quiet_s, shards, leading (so many of them),
                    pid; one when it stops or has read the users again; on a shared journal one when
                    it stands by, with the leader, or with several shards when it leads other ones
  --log-format F    the format of stderr: text, json or logfmt
  -q, --quiet       print failures only

Example
  holdfast serve --data /var/lib/holdfast/server &
  holdfast run --store holdfast://127.0.0.1:7420 nightly -- ./backup.sh
)";

constexpr std::string_view kServer = R"(holdfast server verify|backup|restore [options] FROM [TO]
holdfast server password [options]
holdfast server status|members|step-down|drain [options] [URL]

Looks after the journal of a lock service ('holdfast help serve'), and hashes passwords for its
users. The server may run meanwhile, but not for restore. The last four ask the servers of URL, or
of --store. On a server with users all of them but status ask for the right `admin`.

  verify FOLDER-OR-BACKUP
                    read everything, and say what is in it
  backup FOLDER BACKUP
                    copy the journal to BACKUP, a new file (several shards: folder), and verify it
  restore BACKUP FOLDER
                    put the copy back, where no journal.db may be. A server on it grants nothing for
                    24 h, because clients may count on grants that came after the backup. When all
                    clients are stopped, start it with --clients-stopped
  status            ask the servers that the URL names, and those that lead other shards; exit
                    status 0: all is led, and locks are granted, by one service; 1 and why
  members           ask for all servers on the journal, named or not; 1: of several services
  step-down         have the server that leads, or one of several shards, hand over all that it
                    leads; holders keep their leases. The URL may name that server alone
  drain             have one server stop in order, as SIGTERM does, and wait until it is gone, for
                    60 s at most. Holders keep their leases
  --address ADDR    step-down, drain: that server, if the URL names several or another one
  password          read a password, the first line of stdin, and print its hash for --users
  --json            print one object: journal_id, term, batches, bytes, shards, locks, holders,
                    waiters; or hash; servers, each with address, trouble, refused (the log-in), or
                    address, leads, leader, version, journal_id, journal_place, term, pid, uptime_s,
                    connections, holders, waiters, journal_answers, full, disk_percent, quiet_s (no
                    grants so long), quiet_shards, shards, leading (how many), shard_leaders;
                    vacant_shards; members, each with address, version, leads, shards, http, since,
                    trouble, refused; unlisted; one_service; stepped_down, leader; drained
  --log-format F    the format of stderr: text, json or logfmt
  -q, --quiet       print failures only

Example
  holdfast server backup /var/lib/holdfast/server locks.backup
  holdfast server verify locks.backup
  holdfast server password < app.password
  holdfast server status holdfast://A,B,C
  holdfast server drain holdfast://A,B,C --address B
)";

constexpr std::string_view kBench = R"(holdfast bench [options] --store URL

Takes and releases locks as fast as it can. Then it measures the time of a handoff, from a release
to the grant of a waiter (two clients, two threads, one process).

  --in-flight N     N at a time (default 1), by asynchronous calls that one thread serves
  --threads N       N at a time, each a thread that waits, instead
  --names M         use M names (default N)
  --duration D      of each of the two parts (default 2s)
  --ttl D           length of the leases
  --json            pairs_per_s, acquire_us and handoff_us (each with p50 and p99), errors
)";

constexpr std::string_view kFence =
    R"(holdfast fence check [options] RESOURCE [-- COMMAND [ARG...]]

Checks whether the token is the newest one that RESOURCE has seen, and remembers it in a file: exit
status 0. An older token is refused with 123: another holder has had the lock since, so stop. Put
the check before each write of a script that may be paused beyond its lease.

With COMMAND, it runs COMMAND after the check, and admits no other token before COMMAND ends, so
check and write are one step. The exit status is COMMAND's own. Processes that COMMAND leaves
running keep others out, too.

  --token T         the token (default: HOLDFAST_TOKEN, which 'holdfast run' sets for its command)
  --mode M          exclusive, or shared: must be above the exclusive ones, and is not remembered.
                    Permits cannot be fenced. Default: HOLDFAST_MODE for the token of HOLDFAST_TOKEN
                    ('holdfast run' sets both), exclusive for another token
  --file PATH       the record of this resource; PATH.lock beside it is made, too
  --state DIR       a folder with a record for each resource; it must exist. Default: the folder
                    fence beside the default store
  --wait D          wait at most D (default: without limit) for the commands of others, then exit
                    with 124
  --store URL       ask this store instead
  --json            print an object: resource, token, mode, accepted, newest, file; of a store name,
                    token, current
  -q, --quiet       print nothing when the token is accepted

If the file is damaged or belongs to another resource, nobody is admitted (125). Keep it on a local
disk, for as long as the resource.

With --store URL, RESOURCE is the name of a lock, and the store is asked whether a holder of it has
the token: 0, or 123 when that hold has ended. It keeps no record and runs no COMMAND: between its
answer and your write the lock may still be lost. So it suits a resource that cannot remember a
token, and is asked by the resource at each write.

Examples
  holdfast run stock -- sh -c 'slow-sum >new && holdfast fence check stock -- mv new sum'
  holdfast fence check stock --file /srv/stock.fence --token "$token" || exit
  holdfast fence check stock --store etcd://e1,e2,e3 --token "$token" || exit
)";

constexpr std::string_view kStores = R"(holdfast help stores

The store of the locks: --store URL, else HOLDFAST_STORE, else 'store' in the configuration file,
else an SQLite file of your own. 'holdfast ls -v' names it. For example:

%EXAMPLES%
Keep a password or token out of the URL and of 'ps': use redis://alice@HOST?password_file=PATH,
token_file=PATH where the store has tokens, or a variable:

%VARIABLES%
In a URL, @ : / ? # & % of a password are percent-encoded: %40 for @.

'holdfast doctor --store URL' tells what a store guarantees, and what to change.
)";

constexpr std::string_view kVersion = R"(holdfast version

Prints the version of the program.
)";

constexpr std::string_view kHelp = R"(holdfast help [COMMAND]

Explains COMMAND; without one, lists the commands. 'holdfast COMMAND --help' does the same.
)";

template <typename Options>
Options options_of(Result<void> (*parse)(const Arguments&, Options&));  // Only its type is used.
template <typename Options>
Options options_of(Result<void> (*parse)(const std::string&, const Arguments&, Options&));

template <auto kParse, typename Options>
Result<void> read_options(const std::string& command, const Arguments& arguments, Options& into) {
  if constexpr (std::is_invocable_v<decltype(kParse), const Arguments&, Options&>) {
    return kParse(arguments, into);
  } else {
    return kParse(command, arguments, into);
  }
}

template <auto kParse>
void list_options(const std::string& command) {
  decltype(options_of(kParse)) options;
  (void)read_options<kParse>(command, {"--help"}, options);
}

// Reads the options of a command, then runs it, unless help was asked for.
template <auto kParse, auto kRun>
int with_options(const std::string& command, const Arguments& arguments) {
  decltype(options_of(kParse)) options;
  const auto parsed = read_options<kParse>(command, arguments, options);
  if (options.common.help) return print_help(command);
  if (!parsed) return usage_error(command, parsed.error());
  return kRun(options);
}

// Runs a command that reads its arguments itself.
template <int (*kRun)(const Arguments&)>
int with_words(const std::string&, const Arguments& arguments) {
  return kRun(arguments);
}

template <auto kParse, auto kRun>
constexpr Command row(std::string_view usage, std::string_view summary, std::string_view page) {
  if constexpr (std::is_invocable_v<decltype(kRun), const Arguments&>) {
    return {usage, summary, page, with_words<kRun>, list_options<kParse>};
  } else {
    return {usage, summary, page, with_options<kParse, kRun>, list_options<kParse>};
  }
}

constexpr Command kCommands[] = {
    row<parse_run, run_command>("run NAME -- COMMAND [ARG...]",
                                "run a command while holding the lock NAME", kRun),
    row<parse_elect, elect_command>("elect NAME -- COMMAND",
                                    "run a command while leading; one candidate leads", kElect),
    row<parse_hold, hold_command>("hold NAME",
                                  "hold a lock until the input closes or a signal comes", kHold),
    row<parse_hold, acquire_command>("acquire NAME",
                                     "take a lock for several steps; prints a lease id", kAcquire),
    row<parse_lease, renew_command>("renew LEASE", "renew that lease", kRenew),
    row<parse_lease, release_command>("release LEASE", "release that lease", kRelease),
    row<parse_look, status_command>("status NAME", "is a lock held? Exit status: 0 held, 1 free",
                                    kStatus),
    row<parse_look, ls_command>("ls [PREFIX]", "who holds what", kLs),
    row<parse_look, inspect_command>("inspect NAME",
                                     "holders, waiters in order, token, since when, why", kInspect),
    row<parse_look, watch_command>("watch [PREFIX]", "grants, releases and losses, as they happen",
                                   kWatch),
    row<parse_top, top_command>("top [PREFIX]", "a live view: who holds, who waits, for how long",
                                kTop),
    row<parse_break, break_command>("break NAME --token T", "free a lock by force", kBreak),
    row<parse_fence, fence_command>("fence check RESOURCE",
                                    "let only the newest holder of a lock continue", kFence),
    row<parse_id, id_command>("id next NAME", "an id that grows with time and never repeats", kId),
    row<parse_doctor, doctor_command>("doctor", "does this store give its guarantees?", kDoctor),
    row<parse_store, store_command>("store init", "make the tables of a store that has some",
                                    kStore),
    row<parse_failover, failover_command>("failover status",
                                          "which store of a chain is used? switch it", kFailover),
    row<parse_serve, serve_command>("serve", "run a lock service for the programs of this host",
                                    kServe),
    row<parse_server, server_command>(
        "server verify", "look at a lock service's journal, back it up, restore it", kServer),
    row<parse_bench, bench_command>("bench", "how fast is it?", kBench),
    {"help COMMAND", "explain one of them", kHelp, with_words<help_command>},
    {"version", "the version of the program", kVersion, with_words<version_command>},
};

// Two columns, the first of them `width` wide.
std::string columns(std::string_view left, std::string_view right, std::size_t width) {
  std::string line = "  " + std::string(left);
  line.resize(std::max(line.size() + 2, width), ' ');
  return line + std::string(right) + "\n";
}

// The URLs of all stores, in lines that a terminal holds.
std::string url_patterns() {
  constexpr std::size_t kWidth = 98;
  std::string text, line;
  for (const StoreKind& store : known_stores()) {
    std::string_view left = store.pattern;
    while (!left.empty()) {
      const std::size_t end = std::min(left.find(", "), left.size());
      const std::string url = (line.empty() ? "  " : ", ") + std::string(left.substr(0, end));
      left.remove_prefix(std::min(end + 2, left.size()));
      if (line.size() + url.size() < kWidth) {
        line += url;
        continue;
      }
      text += line + ",\n";
      line = "  " + url.substr(2);
    }
  }
  return text + line + "\n";
}

std::vector<std::string> command_names() {
  std::vector<std::string> names{"stores"};
  for (const Command& one : kCommands) names.emplace_back(one.name());
  return names;
}

// Puts the commands, and what the stores declare, in place of each %WORD% that stands for them.
std::string with_lists(std::string_view page) {
  std::string commands, examples, variables;
  for (const Command& one : kCommands) {
    commands += columns("holdfast " + std::string(one.usage), one.summary, 42);
  }
  for (const StoreKind& one : known_stores()) {
    for (const StoreExample& each : one.examples) examples += columns(each.url, each.about, 40);
    if (!one.secret_variable.empty()) variables += columns(one.secret_variable, one.title, 40);
  }
  std::string text(page);
  for (const auto& [word, with] :
       {std::pair{"%COMMANDS%\n", commands}, std::pair{"%STORES%\n", url_patterns()},
        std::pair{"%EXAMPLES%\n", examples + "\n"}, std::pair{"%VARIABLES%\n", variables + "\n"}}) {
    if (const auto at = text.find(word); at != text.npos) {
      text.replace(at, std::string_view(word).size(), with);
    }
  }
  return text;
}

}  // namespace

std::span<const Command> all_commands() { return kCommands; }

const Command* find_command(std::string_view name) {
  const auto* const found = std::ranges::find(kCommands, name, &Command::name);
  return found == std::end(kCommands) ? nullptr : found;
}

std::string help_text(std::string_view command) {
  if (command.empty()) return with_lists(kFront);
  if (command == "stores") return with_lists(kStores);
  const Command* const found = find_command(command);
  return std::string(found == nullptr ? "" : found->page);
}

int print_help(const std::string& command) {
  const std::string text = help_text(command);
  if (text.empty()) {
    const std::string_view meant = meant_by(command);
    const std::string near = meant.empty() ? nearest(command, command_names()) : std::string(meant);
    if (command.front() == '-') {
      complain("what is " + in_quotes(command) +
               "? Options come after the command: holdfast run [options] NAME -- COMMAND"
               " ('holdfast help' lists the commands)");
    } else {
      complain("there is no command " + in_quotes(command) +
               (near.empty() ? "" : "; did you mean '" + near + "'?") +
               " ('holdfast help' lists them)");
    }
    return kExitError;
  }
  print(text);
  return flush_output() ? 0 : kExitError;
}

}  // namespace holdfast::cli
