"""`holdfast run` where it takes root to arrange the fault. Apart, so that CTest tells that they were skipped."""

import os
import signal
import subprocess

import harness
from harness import PROGRAM, CliCase, alive


class RightsCase(CliCase):
    def need(self, command, what):
        done = subprocess.run(command, check=False, capture_output=True)
        if os.geteuid() != 0 or done.returncode:
            self.skipTest("needs root and " + what)


class VanishedProcTest(RightsCase):
    def test_the_command_and_its_group_are_killed_without_proc(self):
        before = ["unshare", "-m"]
        self.need([*before, "true"], "the right to mount")
        running = self.run_locked(
            "--ttl", "1s", "job", "--", "sh", "-c",
            "trap '' TERM; echo $$ > pids; (sleep 20; :) & echo $! >> pids;"
            " mount -t tmpfs none /proc; echo ready; sleep 20; :", before=before, cwd=self.dir)
        self.assertEqual(running.line(), "ready")
        running.signal(signal.SIGSTOP)
        for pid in self.read_pids(self.path("pids"), 2):
            self.until(lambda pid=pid: not alive(pid), f"{pid} ends")
        running.signal(signal.SIGCONT)
        self.assertEqual(running.status(), 123)


class ProcTest(RightsCase):
    def test_a_proc_of_another_pid_namespace_or_none_gives_125(self):
        for before in (["unshare", "-pf", "--kill-child"],
                       ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc; exec "$@"', "sh"]):
            self.need([*before, "true"], "the right to make a namespace")
            with self.subTest(before=before):
                done = subprocess.run([*before, os.path.abspath(PROGRAM), "run", "job", "--", "echo",
                                       "ran"], env=self.env, timeout=20, capture_output=True,
                                      text=True, check=False)
                self.assertEqual((done.returncode, done.stdout), (125, ""), done.stderr)
                self.assertIn("mount -t proc", done.stderr)


class LimitTest(RightsCase):
    def test_a_guard_that_cannot_be_forked_is_told_with_the_reason(self):
        before = ["setpriv", "--reuid=64999", "--clear-groups"]
        self.need([*before, PROGRAM, "version"], "setpriv, and a program that others may run")
        seen = ""
        for _ in range(20):  # Sometimes it is something else of `run` that finds no room.
            for limit in range(1, 6):
                done = subprocess.run([*before, "prlimit", f"--nproc={limit}", PROGRAM, "run",
                                       "--store", "memory:", "job", "--", "true"], timeout=20,
                                      capture_output=True, text=True, check=False)
                self.assertIn(done.returncode, (0, 125, 126), done.stderr)
                self.assertNotIn("has died", done.stderr)
                seen += done.stderr
        self.assertIn("cannot start the guard process: ", seen)


if __name__ == "__main__":
    harness.main()
