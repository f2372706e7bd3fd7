"""`holdfast run --contain`: nothing of the command outlives its lock, whoever is killed."""

import glob
import os
import signal
import subprocess
import time
import unittest

import harness
from harness import NOBODY_LEFT, PATIENCE, PROGRAM, CliCase, alive

# Two that ignore SIGTERM, each in a session of its own, and one whose parent has gone.
STUBBORN = r"""
trap '' TERM
(setsid sh -c 'trap "" TERM; echo there; sleep 60; :' &)
setsid sh -c 'trap "" TERM; echo there; sleep 60; :' &
echo there
sleep 60
"""


def descendants(root):
    """As this process numbers them, also of those in a pid namespace."""
    parents = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            parents[int(pid)] = harness.parent_of(int(pid))
        except OSError:
            pass
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


class ContainCase:
    kind = None

    def setUp(self):
        super().setUp()
        done = self.holdfast("run", "--contain", self.kind, "probe", "--", "true")
        if "cannot be had here" in done.stderr:
            self.skipTest(done.stderr.strip())

    def contained(self, *arguments, **options):
        return self.run_locked("--contain", self.kind, "--ttl", "2s", *arguments, **options)

    def needs_root(self):
        if os.geteuid() != 0:
            self.skipTest("it needs root to become somebody else")

    def run_as_nobody(self, *command):
        self.needs_root()
        os.chmod(self.dir, 0o777)
        return subprocess.run([PROGRAM, "run", "--contain", self.kind, "job", "--", *command],
                              env=self.env, user=65534, group=65534, extra_groups=[],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)

    def stubborn(self):
        running = self.contained("job", "--", "sh", "-c", STUBBORN)
        for _ in range(3):
            self.assertEqual(running.line(), "there")
        pids = descendants(running.guard())
        self.assertGreaterEqual(len(pids), 5)
        self.env["PIDS"] = self.path("pids")
        with open(self.env["PIDS"], "w", encoding="ascii") as file:
            file.write("\n".join(map(str, pids)))
        return running, pids

    def assert_gone_before_the_next(self, pids):
        successor = self.run_locked("--wait", "20s", "job", "--", "sh", "-c", NOBODY_LEFT)
        self.assertEqual(successor.line(), "nobody left")
        self.assertEqual(successor.status(), 0)
        self.assertEqual([pid for pid in pids if alive(pid)], [])

    def test_the_tree_is_dead_before_the_next_one_holds_when_the_program_is_killed(self):
        running, pids = self.stubborn()
        running.process.kill()
        self.assert_gone_before_the_next(pids)

    def test_a_broken_lock_ends_the_tree(self):
        running, pids = self.stubborn()
        token = self.inspect()["token"]
        self.assertEqual(self.holdfast("break", "job", "--token", token).returncode, 0)
        self.assertEqual(running.status(), 123)
        self.assertEqual([pid for pid in pids if alive(pid)], [])

    def test_statuses_are_the_commands_own(self):
        def run(*command):
            return self.holdfast("run", "--contain", self.kind, "job", "--", *command).returncode
        self.assertEqual(run("sh", "-c", "exit 7"), 7)
        self.assertEqual(run("sh", "-c", "kill -TERM $$"), 143)
        self.assertEqual(run("sh", "-c", "kill -KILL $$"), 137)
        self.assertEqual(run("no-such-program-anywhere"), 127)

    def test_each_signal_reaches_the_command_once(self):
        running = self.contained(
            "job", "--", "sh", "-c",
            "trap 'echo usr1' USR1; trap 'echo term; exit 9' TERM; echo ready; "
            "while :; do sleep 0.05; done")
        self.assertEqual(running.line(), "ready")
        running.signal(signal.SIGUSR1)
        self.assertEqual(running.line(), "usr1")
        running.signal(signal.SIGTERM)
        self.assertEqual(running.line(), "term")
        self.assertEqual(running.status(), 9)

    def test_what_outlives_the_command_is_ended_or_waited_for(self):
        script = "setsid sh -c 'trap \"\" TERM; sleep %s' & exit 4"
        begun = time.monotonic()
        done = self.holdfast("run", "--contain", self.kind, "--kill-after", "200ms", "job", "--",
                             "sh", "-c", script % 60)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertLess(time.monotonic() - begun, 30)
        begun = time.monotonic()
        done = self.holdfast("run", "--contain", self.kind, "--leftover", "wait", "job", "--",
                             "sh", "-c", script % 1)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertGreaterEqual(time.monotonic() - begun, 1)

    def test_what_contradicts_it_is_refused(self):
        for options, words in ((("--leftover", "leave"), "choose one"),
                               (("--reenter",), "give --contain to that one")):
            done = self.holdfast("run", "--contain", self.kind, *options, "job", "--", "true")
            self.assertEqual(done.returncode, 125)
            self.assertIn(words, done.stderr)

    def test_its_output_ends_with_the_command(self):
        done = self.holdfast("run", "--contain", self.kind, "job", "--", "sh", "-c",
                             "echo out; echo err >&2")
        self.assertEqual((done.stdout, done.stderr), ("out\n", "err\n"))


class PidNamespaceTest(ContainCase, CliCase):
    kind = "pidns"

    def test_nothing_outlives_the_death_of_program_guard_and_keeper(self):
        running, pids = self.stubborn()
        guard, keeper = running.guard(), running.keeper()
        os.kill(guard, signal.SIGSTOP)  # It would end the tree as soon as it heard.
        for pid in (keeper, guard, running.pid):
            os.kill(pid, signal.SIGKILL)
        self.until(lambda: not any(map(alive, pids)), "the kernel ends all of it")

    def test_the_command_sees_its_own_processes_only(self):
        done = self.holdfast("run", "--contain", "pidns", "job", "--", "sh", "-c",
                             "echo $$; ls -d /proc/[0-9]* | wc -l")
        first, count = map(int, done.stdout.split())
        self.assertEqual(first, 2, "behind the first process of the namespace")
        self.assertLessEqual(count, 4)

    def test_a_user_who_is_not_root_has_it_by_a_user_namespace(self):
        self.env["HOLDFAST_STORE"] = f"sqlite://{self.path('own.db')}"
        done = self.run_as_nobody("id", "-u")
        if "cannot be had here" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.stdout, "65534\n", done.stderr)


class CgroupTest(ContainCase, CliCase):
    kind = "cgroup"

    def folder_of(self, pid):
        with open(f"/proc/{pid}/cgroup", encoding="ascii") as file:
            return [line.split("::")[1].strip() for line in file if line.startswith("0::")][0]

    def test_its_cgroup_goes_with_it(self):
        for kill in (False, True):
            with self.subTest(kill=kill):
                running, pids = self.stubborn()
                folder = self.folder_of(pids[0])
                self.assertIn("/holdfast-", folder)
                paths = [os.path.join(mount, folder.lstrip("/"))
                         for mount in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")]
                self.assertTrue(any(map(os.path.exists, paths)), paths)
                if kill:
                    running.process.kill()
                else:
                    running.signal(signal.SIGTERM)
                    for pid in pids:
                        if alive(pid):
                            os.kill(pid, signal.SIGKILL)
                running.status()
                self.until(lambda: not any(map(os.path.exists, paths)), "it is removed")

    def folders(self):
        return [folder for mount in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
                for folder in glob.glob(mount + "/**/holdfast-*", recursive=True)]

    def test_a_killed_program_leaves_no_cgroup_behind(self):
        before = self.folders()
        self.holder()
        waiting = self.contained("job", "--", "true")
        waiting.event("waiting")
        self.assertGreater(len(self.folders()), len(before))
        waiting.process.kill()
        self.until(lambda: len(self.folders()) == len(before), "the guard of a wait removes it")
        running = self.contained("other", "--", "sleep", "60")
        running.event("started")
        guard = running.guard()
        for pid in (guard, running.pid):
            os.kill(pid, signal.SIGKILL)
        self.until(lambda: len(self.folders()) == len(before), "the keeper removes it")

    def test_who_may_not_enter_one_is_refused_before_the_lock_is_asked_for(self):
        self.needs_root()
        own = [path for path in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
               if os.path.exists(path + "/cgroup.procs")][0]
        folder = own + self.folder_of(os.getpid()).rstrip("/")
        mode = os.stat(folder).st_mode & 0o7777
        self.addCleanup(os.chmod, folder, mode)
        os.chmod(folder, 0o777)  # A folder can be made in it; cgroup.procs stays root's.
        self.holder()
        done = self.run_as_nobody("true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("cannot enter a cgroup in", done.stderr)

    def test_who_may_not_make_one_is_refused_before_the_lock_is_asked_for(self):
        self.holder()
        done = self.run_as_nobody("true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("--contain cgroup cannot be had here: cannot make a cgroup in", done.stderr)
        self.assertIn("Delegate=yes", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
