"""Drives the real program. Every process started here has a bounded life and is ended by cleanup."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.environ.get("HOLDFAST_PROGRAM", "build/dev/bin/holdfast")
# Only where the tests were built for it.
CLOCK_SHIM = os.path.abspath(os.path.join(os.path.dirname(PROGRAM), "../tests/libtest_clock_shim.so"))
PATIENCE = float(os.environ.get("HOLDFAST_TEST_PATIENCE", "60"))  # Seconds that an event may take on a busy machine.


def state_of(pid):
    """The process state letter; '' when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rsplit(b")", 1)[1].split()[0].decode()
    except OSError:
        return ""


def stands_still(pid):
    """All threads: one may still be in a call of the kernel that gets a lock."""
    states = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/stat", encoding="ascii", errors="replace") as file:
            states.append(file.read().rpartition(")")[2].split()[0])
    return set(states) == {"T"}


def alive(pid):
    return state_of(pid) not in ("", "Z", "X")


def parent_of(pid):
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rsplit(b")", 1)[1].split()[1])


def children_named(pid, name):
    """Children of `pid` whose thread name is `name`."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/comm", encoding="utf-8", errors="replace") as file:
                comm = file.read().strip()
            if parent_of(entry) == pid and comm == name:
                found.append(int(entry))
        except OSError:
            continue
    return found


def boottime():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def busy_processes():
    """The load, and what runs or waits for a disk: why an event is late."""
    with open("/proc/loadavg", encoding="ascii") as file:
        found = [file.read().strip()]
    for entry in os.listdir("/proc"):
        if entry.isdigit() and state_of(entry) in ("R", "D"):
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    command = file.read(80).replace(b"\0", b" ").decode(errors="replace")
                found.append(f"{entry} {state_of(entry)} {command}")
            except OSError:
                continue
    return "; ".join(found[:40])


class Running:
    """A `holdfast` process whose JSON events can be awaited."""

    def __init__(self, case, arguments, **options):
        self.case = case
        read_end, write_end = os.pipe()
        self.reader = read_end
        self.buffer = b""
        self.events = []
        env = options.pop("env", case.env)
        command = [*options.pop("before", ()), PROGRAM, options.pop("verb", "run"), "--json-fd", str(write_end), *arguments]
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stderr", subprocess.PIPE)
        self.process = subprocess.Popen(
            command, env=env, pass_fds=(write_end,), start_new_session=True,
            stdout=subprocess.PIPE, **options)
        os.close(write_end)
        self.pid = self.process.pid
        case.addCleanup(self.clean)

    def clean(self):
        if self.process.poll() is None:
            for pid in [*self.helpers(), self.pid]:
                for number in (signal.SIGCONT, signal.SIGTERM):
                    try:
                        os.kill(pid, number)
                    except OSError:
                        pass
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()  # The guard ends the rest.
                self.process.wait()
        for stream in (self.process.stdout, self.process.stderr, self.process.stdin):
            if stream:
                stream.close()
        os.close(self.reader)

    def event(self, word):
        """Waits for the next event of that name and returns it."""
        until = time.monotonic() + PATIENCE
        while True:
            for i, event in enumerate(self.events):
                if event["event"] == word:
                    del self.events[: i + 1]
                    return event
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.reader], [], [], left)[0]:
                self.case.fail(f"no event '{word}' in {PATIENCE} s; seen: {self.events}; "
                               f"busy: {busy_processes()}")
            chunk = os.read(self.reader, 65536)
            if not chunk:
                self.case.fail(f"ended without '{word}'; seen: {self.events}; "
                               f"stderr: {self.process.stderr.read()!r}")
            self.buffer += chunk
            *lines, self.buffer = self.buffer.split(b"\n")
            self.events += [json.loads(line) for line in lines]

    def words(self):
        """The names of all events that are still to come, until its end."""
        self.status()
        while chunk := os.read(self.reader, 65536):
            self.buffer += chunk
        return [json.loads(line)["event"] for line in self.buffer.splitlines()]

    def line(self):
        """The next line that the command prints."""
        if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
            self.case.fail(f"the command printed nothing in {PATIENCE} s; busy: {busy_processes()}")
        text = b""
        while not text.endswith(b"\n"):
            byte = os.read(self.process.stdout.fileno(), 1)
            if not byte:
                break
            text += byte
        return text.decode().rstrip("\n")

    def signal(self, number):
        os.kill(self.pid, number)

    def helpers(self):
        """The keeper of the guard, and the guard, as far as they are there."""
        keepers = children_named(self.pid, "holdfast-keeper")
        return keepers + [guard for keeper in keepers
                          for guard in children_named(keeper, "holdfast-guard")]

    def both_helpers(self):
        # The guard gives itself its name, so on a busy machine it may be there without it for a
        # moment. What was seen is kept: a second look at /proc may miss one again.
        seen = []

        def look():
            seen[:] = self.helpers()
            return len(seen) == 2

        self.case.until(look, "the guard and its keeper")
        return seen

    def guard(self):
        return self.both_helpers()[1]

    def keeper(self):
        return self.both_helpers()[0]

    def status(self):
        """Waits for the end: the exit status, or -n for signal n."""
        return self.process.wait(PATIENCE)

    def errors(self):
        return self.process.stderr.read().decode()


class CliCase(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="holdfast-cli-")
        self.addCleanup(directory.cleanup)
        self.dir = directory.name
        self.env = {key: value for key, value in os.environ.items()
                    if not key.startswith(("HOLDFAST_", "XDG_"))}
        self.store = f"sqlite://{self.dir}/locks.db"
        self.env.update(HOLDFAST_STORE=self.store, HOME=self.dir, LC_ALL="C.UTF-8", TZ="UTC")

    def path(self, name):
        return os.path.join(self.dir, name)

    def holdfast(self, *arguments, env=None, stdin="", timeout=20, **options):
        """Runs to the end; a CompletedProcess with text."""
        return subprocess.run(
            [PROGRAM, *arguments], env=env or self.env, input=stdin, capture_output=True,
            text=True, errors="surrogateescape", timeout=timeout, start_new_session=True,
            check=False, **options)

    def run_locked(self, *arguments, **options):
        return Running(self, arguments, **options)

    def holder(self, name="job", *options, ttl="10s"):
        """Somebody who holds `name` until the end of the test."""
        running = self.run_locked("--ttl", ttl, *options, name, "--", "sleep", "60")
        running.event("started")
        return running

    def inspect(self, name="job"):
        done = self.holdfast("inspect", "--json", name)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def until(self, condition, what):
        """For states of the system that no event tells of."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                self.fail(f"not in {PATIENCE} s: {what}")
            time.sleep(0.01)

    def read_pids(self, path, count):
        def ready():
            try:
                with open(path, encoding="ascii") as file:
                    return len(file.read().split()) >= count
            except OSError:
                return False
        self.until(ready, f"{count} process ids in {path}")
        with open(path, encoding="ascii") as file:
            return [int(word) for word in file.read().split()]


class Notes:
    """As tests/support/tries.h has it: scripts/test counts the cases, and a second try runs what failed."""

    def __init__(self):
        folder, entry = (os.environ.get("HOLDFAST_TEST_" + word) for word in ("TRIES", "ENTRY"))
        self.path = os.path.join(folder, entry) if folder and entry else None

    def failed_before(self):
        if not self.path or not os.path.exists(self.path + ".failed"):
            return []
        with open(self.path + ".failed", encoding="utf-8") as file:
            return sorted({line.split("\t")[0] for line in file})

    def add(self, kind, *fields):
        if self.path:
            with open(f"{self.path}.{kind}", "a", encoding="utf-8") as file:
                print(*fields, sep="\t", file=file)


class NotingResult(unittest.TextTestResult):
    notes = Notes()
    outcome = ("passed", "")  # A set-up that fails is no test that was started.

    def startTest(self, test):
        self.begun = time.monotonic()
        self.outcome = ("passed", "")
        super().startTest(test)

    def failed(self, error):
        if self.outcome[0] != "failed":
            self.outcome = ("failed", " ".join(str(error[1]).split())[:300])

    def addFailure(self, test, err):
        self.failed(err)
        super().addFailure(test, err)

    def addError(self, test, err):
        self.failed(err)
        super().addError(test, err)

    def addSubTest(self, test, subtest, err):
        if err:
            self.failed(err)
        super().addSubTest(test, subtest, err)

    def addSkip(self, test, reason):
        self.outcome = ("skipped", reason)
        super().addSkip(test, reason)

    def stopTest(self, test):
        super().stopTest(test)
        name = test.id().removeprefix("__main__.")
        result, message = self.outcome
        self.notes.add("ran", result, name, message)
        if result == "failed":
            with open("/proc/loadavg", encoding="ascii") as file:
                load = file.read().split()[0]
            self.notes.add("failed", name, f"{time.monotonic() - self.begun:.1f}", load, message)


def main():
    """unittest.main(), but CTest hears of it when a case was skipped."""
    arguments = [*sys.argv, *NotingResult.notes.failed_before()]
    runner = unittest.TextTestRunner(verbosity=2, resultclass=NotingResult)
    ran = unittest.main(argv=arguments, testRunner=runner, exit=False).result
    for case, reason in ran.skipped:
        print(f"SKIPPED: {case.id()}: {reason}", flush=True)
    if not ran.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if ran.skipped else 0)


# A stubborn tree: the command ignores SIGTERM, and so do a child, a grandchild whose parent has
# gone, and a child in a session of its own. All write their process ids to $PIDS.
STUBBORN = r"""
trap '' TERM HUP INT
note() { sh -c 'echo $PPID' >> "$PIDS"; }
(note; sleep 60) &
(setsid sh -c 'trap "" TERM; echo $$ >> "$PIDS"; sleep 60; :' &)
setsid sh -c 'trap "" TERM; echo $$ >> "$PIDS"; sleep 60; :' &
echo $$ >> "$PIDS"
sleep 60
"""

# Fails with 55 when one of the processes in $PIDS is still there.
NOBODY_LEFT = r"""
for pid in $(cat "$PIDS"); do
  state=$(sed 's/.*) //; s/ .*//' "/proc/$pid/stat" 2>/dev/null)
  case "$state" in ''|Z|X) ;; *) echo "process $pid is $state"; exit 55 ;; esac
done
echo nobody left
"""
