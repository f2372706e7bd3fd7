"""`holdfast top`: the screen on a terminal of its own, and plain tables everywhere else."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time
import unittest

import harness
from harness import PATIENCE, PROGRAM, CliCase
from terminal import Terminal

HAVE_CURSES = os.environ.get("HOLDFAST_HAVE_CURSES", "ON") == "ON"
ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


class Top(Terminal):
    """`holdfast top` on a terminal of that size."""

    def __init__(self, case, *arguments, rows=24, columns=100, **variables):
        fd, self.terminal = pty.openpty()
        super().__init__(case, fd)
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.terminal)
        env = {**case.env, "TERM": "xterm", "LC_ALL": "C.UTF-8", **variables}

        def own_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [PROGRAM, "top", "--interval", "200ms", *arguments], env=env, stdin=self.terminal,
            stdout=self.terminal, stderr=self.terminal, preexec_fn=own_terminal)
        case.addCleanup(self.clean)

    def clean(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.fd)
        os.close(self.terminal)

    def resize(self, rows, columns):
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def status(self):
        """Its exit status; all that it still wrote is in `seen`."""
        until = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < until:
            self.read(0.05)
        while self.read(0):
            pass
        return self.process.wait(1)

    def mode(self):
        return termios.tcgetattr(self.terminal)


@unittest.skipUnless(HAVE_CURSES, "this build has no curses")
class ScreenTest(CliCase):
    def test_it_shows_holders_and_waiters_and_q_ends_it(self):
        self.holder("job", "--reason", "nightly")
        self.run_locked("job", "--", "true").event("waiting")
        top = Top(self, columns=160)
        top.expect(re.escape(ENTER))
        top.expect(r"locks 1, holders 1, waiters 1")
        top.expect(r"NAME +STATE")
        top.expect(r"job +holds +exclusive")
        top.expect(r"nightly")
        top.expect(r"waits 1")
        self.assertNotEqual(top.mode(), top.before)
        top.send("q")
        self.assertEqual(top.status(), 0)
        self.assertIn(LEAVE, top.seen)
        self.assertEqual(top.mode(), top.before)

    def test_what_happens_meanwhile_is_shown(self):
        top = Top(self)
        top.expect("locks 0")
        self.holder("newcomer")
        top.expect("newcomer")

    def test_ctrl_c_and_a_signal_leave_the_terminal_as_it_was(self):
        for end in (lambda top: top.send("\x03"),
                    lambda top: top.process.send_signal(signal.SIGTERM)):
            top = Top(self)
            top.expect("NAME")
            end(top)
            self.assertEqual(top.status(), 0)
            self.assertIn(LEAVE, top.seen)
            self.assertEqual(top.mode(), top.before)

    def test_ctrl_z_gives_the_terminal_back_and_cont_draws_anew(self):
        self.holder("job")
        top = Top(self)
        top.expect("job")
        top.send("\x1a")
        top.expect(re.escape(LEAVE))
        self.until(lambda: self.stopped(top.process.pid), "it is stopped")
        self.assertEqual(top.mode(), top.before)
        top.process.send_signal(signal.SIGCONT)
        top.expect("job +holds")
        top.send("q")
        self.assertEqual(top.status(), 0)
        self.assertEqual(top.mode(), top.before)

    @staticmethod
    def stopped(pid):
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "T"

    def test_every_size_is_drawn(self):
        self.holder("job")
        top = Top(self)
        top.expect("job +holds")
        for rows, columns in ((1, 1), (2, 5), (3, 10), (5, 30), (200, 300)):
            top.resize(rows, columns)
            top.process.send_signal(signal.SIGWINCH)
            time.sleep(0.05)
            self.assertIsNone(top.process.poll())
        top.expect(r"job +holds +exclusive")
        top.send("q")
        self.assertEqual(top.status(), 0)

    def test_keys_scroll_and_sort(self):
        # Curses sends what differs from what stands there: no two names have a letter in common.
        for letter in "abcdefghijkl":
            self.assertEqual(self.holdfast("acquire", letter * 6).returncode, 0)
        top = Top(self, rows=12)
        top.expect("iiiiii")
        top.expect("1-9 of 12")
        top.send("\x1bOB")  # As a terminal in keypad mode sends it.
        top.expect("jjjjjj")
        top.send("\x1bOF")
        top.expect("llllll")
        top.send("\x1bOH")
        top.expect("aaaaaa")
        top.send("\x1b[6~")
        top.expect("llllll")
        top.send("s")
        top.expect("by queue|queue")
        top.send("q")
        self.assertEqual(top.status(), 0)

    def test_control_characters_are_shown_escaped(self):
        self.holder("job", "--reason", "a\x1b[31mred\x07")
        top = Top(self, columns=200)
        top.expect(re.escape(r"a\x1b[31mred\x07"))
        top.send("q")
        self.assertEqual(top.status(), 0)

    def test_a_terminal_without_utf8_gets_question_marks(self):
        self.assertEqual(self.holdfast("acquire", "über").returncode, 0)
        top = Top(self, LC_ALL="C")
        top.expect(r"\?ber +holds")

    def test_a_terminal_that_closes_ends_it(self):
        top = Top(self)
        top.expect("NAME")
        top.process.send_signal(signal.SIGHUP)
        self.assertEqual(top.status(), 0)

    def test_a_store_that_fails_is_told_and_the_last_look_stays(self):
        self.holder("job")
        top = Top(self, columns=200)
        top.expect("job +holds")
        os.rename(self.path("locks.db"), self.path("away.db"))
        with open(self.path("locks.db"), "w", encoding="ascii") as other:
            other.write("this is no database" * 500)
        top.expect("! ")
        top.send("q")
        self.assertEqual(top.status(), 0)


class PlainTest(CliCase):
    def test_once_prints_a_table(self):
        self.holder("job", "--reason", "nightly\n\x1b")
        self.run_locked("job", "--", "true").event("waiting")
        done = self.holdfast("top", "--once")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertIn("locks 1, holders 1, waiters 1", lines[0])
        self.assertRegex(lines[1], r"^NAME +STATE +MODE +WHO +HOST +PID +FOR +LEFT +QUEUE +TOKEN +REASON$")
        self.assertRegex(lines[2], r"^job +holds +exclusive .* 1 +\d{10}\.\d{20} +nightly\\x0a\\x1b$")
        self.assertRegex(lines[3], r"^job +waits 1 +exclusive")
        self.assertEqual(len(lines), 4)
        token = lines[2].split()[-2]
        inspected = self.holdfast("inspect", "job", "--json")
        self.assertEqual(token, json.loads(inspected.stdout)["token"], "spelled as everywhere")
        self.assertEqual(self.holdfast("break", "job", "--token", token).returncode, 0)

    def test_a_prefix_chooses(self):
        for name in ("a/1", "b/1"):
            self.assertEqual(self.holdfast("acquire", name).returncode, 0)
        self.assertNotIn("a/1", self.holdfast("top", "--once", "b/").stdout)

    def test_without_a_terminal_tables_follow_each_other_until_a_signal(self):
        top = subprocess.Popen([PROGRAM, "top", "--interval", "100ms"], env=self.env,
                               stdout=subprocess.PIPE, text=True)
        self.addCleanup(top.wait)
        self.addCleanup(top.kill)
        self.addCleanup(top.stdout.close)
        heads = 0
        while heads < 3:
            heads += top.stdout.readline().startswith("NAME")
        top.send_signal(signal.SIGINT)
        self.assertEqual(top.wait(PATIENCE), 0)

    def test_a_dumb_terminal_gets_tables(self):
        for variables in ({"TERM": "dumb"}, {"TERM": "no-such-terminal"}, {"TERM": ""}):
            top = Top(self, **variables)
            top.expect("NAME")
            top.expect("NAME")
            self.assertNotIn("\x1b", top.seen)
            top.send("\x03")
            self.assertEqual(top.status(), 0)

    def test_json_is_one_object_per_line(self):
        self.holder("job")
        top = subprocess.Popen([PROGRAM, "top", "--json", "--interval", "100ms"], env=self.env,
                               stdout=subprocess.PIPE, text=True)
        self.addCleanup(top.wait)
        self.addCleanup(top.kill)
        self.addCleanup(top.stdout.close)
        for _ in range(2):
            seen = json.loads(top.stdout.readline())
            self.assertEqual([lock["name"] for lock in seen["locks"]], ["job"])
            self.assertLessEqual({"time", "store"}, set(seen))
        top.send_signal(signal.SIGTERM)
        self.assertEqual(top.wait(PATIENCE), 0)

    def test_a_reader_that_goes_ends_it(self):
        top = subprocess.Popen([PROGRAM, "top", "--interval", "100ms"], env=self.env,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(top.wait)
        self.addCleanup(top.kill)
        top.stdout.readline()
        top.stdout.close()
        self.assertIn(top.wait(PATIENCE), (0, 125))

    def test_an_interval_and_an_order_that_are_none_are_refused(self):
        for arguments in (["--interval", "10ms"], ["--interval", "2h"], ["--sort", "size"]):
            done = self.holdfast("top", "--once", *arguments)
            self.assertEqual(done.returncode, 125)

    def test_a_store_that_cannot_be_had_is_an_error(self):
        done = self.holdfast("top", "--store", "sqlite:///proc/none/locks.db")
        self.assertEqual(done.returncode, 125)
        self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    harness.main()
