"""`holdfast run` on a terminal: Ctrl-C, Ctrl-Z and back, reading, background; under a real shell."""

import getpass
import os
import pty
import select
import shutil
import signal
import sys
import time
import unittest

import harness
from harness import PATIENCE, PROGRAM, CliCase
from terminal import Terminal

PROMPT = "READY> "


class Shell(Terminal):
    """An interactive bash on a terminal of its own."""

    def __init__(self, case):
        env = {**case.env, "PS1": PROMPT, "TERM": "dumb", "PATH": os.environ["PATH"],
               "HOLDFAST": os.path.abspath(PROGRAM)}
        self.pid, fd = pty.fork()
        if self.pid == 0:
            os.chdir(case.dir)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"], env)
        super().__init__(case, fd)
        case.addCleanup(self.clean)
        self.expect(PROMPT)

    def clean(self):
        # The terminal hangs up: the shell passes that on to its jobs.
        os.close(self.fd)
        until = time.monotonic() + 5
        while time.monotonic() < until:
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                return
            time.sleep(0.02)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def read(self, patience):
        came = super().read(patience)
        self.seen = self.seen.replace("\r\n", "\n")
        return came

    def run(self, command):
        self.send(command + "\n")


@unittest.skipUnless(shutil.which("bash"), "needs bash")
class TerminalTest(CliCase):
    def setUp(self):
        super().setUp()
        self.shell = Shell(self)

    def test_ctrl_c_reaches_the_command_and_the_shell_goes_on(self):
        self.shell.run("$HOLDFAST run job -- sh -c 'echo on; exec sleep 60'")
        self.shell.expect("\non\n")
        self.shell.send("\x03")
        self.shell.expect(PROMPT)
        self.shell.run("echo status=$?")
        self.shell.expect("status=130\n")

    def test_the_command_reads_from_the_terminal(self):
        self.shell.run("$HOLDFAST run job -- sh -c 'echo on; read line; echo \"read $line\"'")
        self.shell.expect("\non\n")
        self.shell.run("some words")
        self.shell.expect("\nread some words\n")
        self.shell.expect(PROMPT)

    def test_the_command_is_in_front_in_a_group_of_its_own(self):
        self.shell.run("$HOLDFAST run job -- sh -c 'ps -o pid=,pgid=,tpgid=,ppid=,sid= -p $$'")
        pid, group, front, guard, session = self.shell.expect(
            r"(\d+) +(\d+) +(\d+) +(\d+) +(\d+)\n").groups()
        self.assertEqual((group, front), (pid, pid))
        self.assertEqual(int(session), self.shell.pid)
        self.assertNotEqual(guard, session)

    def test_ctrl_z_gives_the_prompt_back_and_fg_goes_on(self):
        self.shell.run("$HOLDFAST run job -- sh -c 'echo on; read line; echo \"read $line\"'")
        self.shell.expect("\non\n")
        self.shell.send("\x1a")
        self.shell.expect("stopped while holding 'job'")
        self.shell.expect(r"Stopped[^\n]*\n")
        self.shell.expect(PROMPT)
        self.shell.run("fg")
        self.shell.expect("run job")
        self.shell.run("after fg")
        self.shell.expect("\nread after fg\n")
        self.shell.expect(PROMPT)
        self.shell.run("echo status=$?")
        self.shell.expect("status=0\n")

    def test_ctrl_z_stops_nested_runs_and_fg_goes_on(self):
        self.shell.run("$HOLDFAST run job -- $HOLDFAST run inner --"
                       " sh -c 'echo on; read line; echo \"read $line\"'")
        self.shell.expect("\non\n")
        self.shell.send("\x1a")
        self.shell.expect(r"Stopped[^\n]*\n")
        self.shell.expect(PROMPT)
        self.shell.run("fg")
        self.shell.expect("run job")
        self.shell.run("after fg")
        self.shell.expect("\nread after fg\n")
        self.shell.expect(PROMPT)

    def test_a_whole_pipeline_stops_and_goes_on(self):
        self.shell.run("$HOLDFAST run job -- sh -c 'echo on >&2; read line; echo \"read $line\"'"
                       " | cat")
        self.shell.expect("\non\n")
        self.shell.send("\x1a")
        self.shell.expect(r"Stopped[^\n]*\n")
        self.shell.expect(PROMPT)
        self.shell.run("fg")
        self.shell.run("piped")
        self.shell.expect("\nread piped\n")
        self.shell.expect(PROMPT)

    # Reads a line of its input, and one from the terminal as a pager does; then the rest.
    PAGER = ("import sys; print('first', sys.stdin.readline().strip(), flush=True);"
             " key = open('/dev/tty').readline().strip();"
             " print('key', key, 'rest', len(sys.stdin.readlines()), flush=True)")

    def pager(self):
        with open(self.path("pager.py"), "w", encoding="ascii") as file:
            file.write(self.PAGER)
        return f"{sys.executable} {self.path('pager.py')}"

    def test_a_pager_behind_it_reads_the_terminal(self):
        self.shell.run(f"$HOLDFAST run job -- seq 200000 | {self.pager()}")
        self.shell.expect("first 1\n")
        self.shell.run("k")
        self.shell.expect("key k rest 199999\n")
        self.shell.expect(PROMPT)

    def test_a_command_reads_the_terminal_and_then_the_pager_does(self):
        self.shell.run("$HOLDFAST run job -- sh -c 'echo on >&2; read a; echo $a; seq 200000' | "
                       + self.pager())
        self.shell.expect("\non\n")
        self.shell.run("words")
        self.shell.expect("first words\n")
        self.shell.run("k")
        self.shell.expect("key k rest 200000\n")
        self.shell.expect(PROMPT)

    def test_ctrl_c_ends_a_command_before_a_pipe_that_has_the_terminal(self):
        self.shell.run("$HOLDFAST run job -- sh -c 'echo on >&2; exec sleep 60'"
                       " | { trap '' INT; cat; }")
        self.shell.expect("\non\n")
        self.shell.send("\x03")
        self.shell.expect(PROMPT)
        self.shell.run("echo status=${PIPESTATUS[0]}")
        self.shell.expect("status=130\n")

    def test_ctrl_z_just_as_the_command_reaches_for_the_terminal_stops_the_pipeline(self):
        for _ in range(5):
            self.shell.run("$HOLDFAST run job -- sh -c 'echo on >&2; read line; echo \"read $line\"'"
                           " | cat")
            self.shell.expect("\non\n")
            self.shell.send("\x1a")
            self.shell.expect(r"Stopped[^\n]*\n")
            self.shell.expect(PROMPT)
            self.shell.run("fg")
            self.shell.run("piped")
            self.shell.expect("\nread piped\n")
            self.shell.expect(PROMPT)

    def test_a_job_that_stays_stopped_loses_the_lock_and_its_command(self):
        self.shell.run("$HOLDFAST run --ttl 1s job -- sh -c 'echo $$ > pid; echo on; exec sleep 60'")
        self.shell.expect("\non\n")
        self.shell.send("\x1a")
        self.shell.expect(r"Stopped[^\n]*\n")
        self.shell.expect(PROMPT)
        pid = self.read_pids(self.path("pid"), 1)[0]
        self.until(lambda: not os.path.exists(f"/proc/{pid}"), "the stopped command is ended")
        self.shell.run("fg")
        self.shell.expect("lost the lock 'job'")
        self.shell.expect(PROMPT)
        self.shell.run("echo status=$?")
        self.shell.expect("status=123\n")

    def test_a_background_job_that_reads_stops_until_fg(self):
        self.shell.run("$HOLDFAST run job -- sh -c 'echo on; read line; echo \"read $line\"' &")
        self.shell.expect("on\n")
        self.shell.run("")
        self.until(self.stopped_job, "the job stops for input")
        self.shell.run("fg")
        self.shell.expect("run job")
        self.shell.run("at last")
        self.shell.expect("\nread at last\n")

    def test_hold_in_the_background_does_not_wake_for_what_is_typed(self):
        self.shell.run("$HOLDFAST hold job & sleep 1.5; ps -o cputimes= -o comm= -p $!;"
                       " awk '{print \"ticks\", $14 + $15, \"over\"}' /proc/$!/stat")
        self.shell.expect("held job")
        self.shell.send("typed ahead\n")
        ticks = int(self.shell.expect(r"ticks (\d+) over\n").group(1))
        self.assertLess(ticks, 50)

    def stopped_job(self):
        self.shell.run("jobs; echo listed")
        return "Stopped" in self.shell_text_until("listed\n")

    def shell_text_until(self, pattern):
        match = self.shell.expect(f"(?s)(.*?)\n{pattern}")
        return match.group(1)

    def test_ctrl_c_while_waiting_leaves_the_queue(self):
        self.holder()
        self.shell.run("$HOLDFAST run job -- true")
        self.shell.expect(f"waiting for 'job', held by {getpass.getuser()}: holdfast run sleep on ")
        self.shell.send("\x03")
        self.shell.expect(PROMPT)
        self.shell.run("echo status=$?")
        self.shell.expect("status=130\n")
        self.assertEqual(self.inspect()["waiters"], [])

    def test_ctrl_z_while_waiting_gives_the_prompt_back(self):
        holder = self.holder()
        self.shell.run("$HOLDFAST run job -- echo mine at last")
        self.shell.expect("waiting for 'job'")
        self.shell.send("\x1a")
        self.shell.expect(r"Stopped[^\n]*\n")
        self.shell.expect(PROMPT)
        self.shell.run("fg")
        self.shell.expect("run job")
        holder.signal(signal.SIGTERM)
        self.shell.expect("mine at last\n")

    def test_an_interactive_shell_as_the_command_has_job_control(self):
        self.shell.run("$HOLDFAST run job -- bash --norc --noprofile --noediting -i")
        self.shell.expect(PROMPT)
        self.shell.run("sh -c 'echo on; exec sleep 60'")
        self.shell.expect("\non\n")
        self.shell.send("\x1a")
        self.shell.expect(r"Stopped[^\n]*\n")
        self.shell.run("kill -KILL %1; while jobs %1 >/dev/null 2>&1; do sleep 0.02; done; exit 3")
        self.shell.expect("exit\n")
        self.shell.run("echo status=$?")
        self.shell.expect("status=3\n")

    def test_control_characters_of_others_are_shown_not_sent(self):
        self.holder("job", "--reason", "red \x1b[31m alert\x07")
        self.shell.run("$HOLDFAST inspect job; echo over")
        text = self.shell_text_until("over\n")
        self.assertIn(r"red \x1b[31m alert\x07", text)
        self.assertNotIn("\x1b[31m", text)

    def test_colour_only_on_a_terminal_that_wants_it(self):
        self.holder()
        self.shell.run("TERM=xterm $HOLDFAST ls; echo over")
        self.assertIn("\x1b[1m", self.shell_text_until("over\n"))
        self.shell.run("TERM=xterm NO_COLOR=1 $HOLDFAST ls; echo over")
        self.assertNotIn("\x1b", self.shell_text_until("over\n"))
        self.assertNotIn("\x1b", self.holdfast("ls").stdout)


class OrphanTest(CliCase):
    def pipeline(self, command, *answers):
        """Of a session without an interactive shell; shows what the answers' keys say."""
        pid, fd = pty.fork()
        if pid == 0:
            os.execve("/bin/sh", ["sh", "-c", f"{PROGRAM} run job -- {command}; :"], self.env)
        self.addCleanup(os.close, fd)
        self.addCleanup(os.waitpid, pid, 0)
        self.addCleanup(os.kill, pid, signal.SIGKILL)
        seen = b""
        for wanted, answer in answers:
            while wanted not in seen:
                self.assertTrue(select.select([fd], [], [], PATIENCE)[0], seen)
                try:
                    seen += os.read(fd, 1000)
                except OSError:
                    self.fail(f"ended without {wanted}: {seen}")
            os.write(fd, answer)

    def test_a_pager_without_job_control_above_reads_the_terminal(self):
        self.pipeline("seq 200000 | { read a; echo got $a; read key </dev/tty; echo key $key;"
                      " wc -l; }", (b"got 1", b"k\n"), (b"key k", b""), (b"199999", b""))

    def test_a_command_in_a_pipeline_without_job_control_above_reads_the_terminal(self):
        self.pipeline("sh -c 'echo on >&2; read a; echo $a; seq 200000' | "
                      "{ read a; echo got $a; wc -l; }",
                      (b"on", b"word\n"), (b"got word", b""), (b"200000", b""))

    def test_ctrl_z_without_job_control_above_does_not_stop_anything(self):
        pid, fd = pty.fork()
        if pid == 0:
            os.execve(PROGRAM, ["holdfast", "run", "job", "--", "sh", "-c",
                                "echo on; read line; exit 5"], self.env)
        self.addCleanup(os.close, fd)
        seen = b""
        while b"on" not in seen:
            seen += os.read(fd, 100)
        os.write(fd, b"\x1a\n")
        status = []

        def ended():
            done, result = os.waitpid(pid, os.WNOHANG)
            status.append(result)
            return done != 0
        try:
            self.until(ended, "the command goes on")
        except AssertionError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        self.assertEqual(os.waitstatus_to_exitcode(status[-1]), 5)


if __name__ == "__main__":
    harness.main()
