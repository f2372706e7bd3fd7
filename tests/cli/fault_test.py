"""What `holdfast run` survives: kills and stops of either process, stubborn trees, lost locks."""

import contextlib
import os
import pty
import signal
import termios
import time
import unittest

import harness
from harness import NOBODY_LEFT, STUBBORN, CliCase, alive, boottime, parent_of, state_of


class FaultCase(CliCase):
    TTL = "2s"

    def setUp(self):
        super().setUp()
        self.pids_file = self.path("pids")
        self.env["PIDS"] = self.pids_file

    def stubborn(self, *options, ttl=None):
        """A holder whose tree does not want to end; and the processes of that tree."""
        running = self.run_locked("--ttl", ttl or self.TTL, *options, "job", "--", "sh", "-c",
                                  STUBBORN)
        running.event("started")
        return running, self.read_pids(self.pids_file, 4)

    def successor(self):
        """Waits for the lock, and looks whether the tree before it has ended."""
        running = self.run_locked("--wait", "20s", "job", "--", "sh", "-c", NOBODY_LEFT)
        running.event("waiting")
        return running

    def assert_successor_is_alone(self, successor, former_token):
        self.assertEqual(successor.line(), "nobody left")
        self.assertEqual(successor.status(), 0)
        self.assertGreater(successor.event("acquired")["token"], former_token)

    def assert_all_gone(self, pids):
        self.assertEqual([pid for pid in pids if alive(pid)], [])


SHIM = harness.CLOCK_SHIM


class WallClockTest(CliCase):
    @unittest.skipUnless(os.path.exists(SHIM), "needs the shim of the clock")
    def test_a_wall_clock_that_is_set_forward_ends_no_command(self):
        clock = self.path("clock")
        with open(clock, "wb") as file:
            file.write(bytes(8))
        self.env.update(LD_PRELOAD=os.path.abspath(SHIM), HOLDFAST_TEST_CLOCK_FILE=clock)
        running = self.run_locked("--ttl", "6s", "job", "--", "sh", "-c", "echo up; sleep 2.5; exit 4")
        self.assertEqual(running.line(), "up")
        with open(clock, "r+b") as file:
            file.write((3600 * 10**9).to_bytes(8, "little"))
        self.assertEqual(running.status(), 4)


class KilledTest(FaultCase):
    def test_the_tree_is_dead_before_the_next_one_holds_when_the_program_is_killed(self):
        running, pids = self.stubborn()
        token = self.inspect()["token"]
        successor = self.successor()
        running.process.kill()
        self.assert_successor_is_alone(successor, token)
        self.assert_all_gone(pids)

    def test_a_well_behaved_command_is_asked_to_end_when_the_program_is_killed(self):
        # Not only when the lease ends.
        running = self.run_locked(
            "--ttl", "10m", "job", "--", "sh", "-c",
            "trap 'echo asked > said; exit' TERM; echo ready; while :; do sleep 0.05; done",
            cwd=self.dir)
        self.assertEqual(running.line(), "ready")
        running.process.kill()
        self.until(lambda: os.path.exists(self.path("said")), "SIGTERM at once")

    def test_a_killed_guard_ends_the_run_with_125_and_an_empty_tree(self):
        running, pids = self.stubborn()
        os.kill(running.guard(), signal.SIGKILL)
        self.assertEqual(running.status(), 125)
        self.assert_all_gone(pids)
        self.assertIn("guard", running.errors())
        self.assertFalse(self.inspect()["held"])

    def test_a_killed_keeper_ends_the_run_with_125_and_an_empty_tree(self):
        running, pids = self.stubborn()
        os.kill(running.keeper(), signal.SIGKILL)
        self.assertEqual(running.event("error")["code"], "kGuardDied")
        self.assertEqual(running.status(), 125)
        self.assert_all_gone(pids)
        self.assertFalse(self.inspect()["held"])

    def test_a_killed_keeper_leaves_no_time_in_which_the_guards_death_would_free_the_tree(self):
        running = self.run_locked(
            "--ttl", "30s", "--kill-after", "10s", "job", "--", "sh", "-c",
            "trap 'touch asked' TERM; echo ready; while :; do sleep 0.05; done", cwd=self.dir)
        self.assertEqual(running.line(), "ready")
        os.kill(running.keeper(), signal.SIGKILL)
        self.assertEqual(running.status(), 125)
        self.assertFalse(os.path.exists(self.path("asked")))

    def test_the_lock_is_kept_when_nobody_knows_whether_the_tree_has_ended(self):
        for attempt in range(10):
            name = f"job{attempt}"
            running = self.run_locked("--ttl", "30s", name, "--", "sh", "-c",
                                      "setsid sleep 60 & echo $!; wait")
            left = int(running.line())
            guard, keeper = running.guard(), running.keeper()
            os.kill(guard, signal.SIGSTOP)  # It would kill the tree as soon as it heard.
            os.kill(keeper, signal.SIGKILL)
            os.kill(guard, signal.SIGKILL)
            self.assertEqual(running.status(), 125)
            if not alive(left):
                continue  # The guard was faster.
            os.kill(left, signal.SIGKILL)
            self.assertTrue(self.inspect(name)["held"])
            self.assertIn("may still be running", running.event("error")["message"])
            errors = running.errors()
            self.assertIn("not given back", errors)
            self.assertNotIn("was ended", errors)
            return
        self.fail("the guard could not be killed before it had killed the tree")

    def test_program_and_guard_killed_at_once_leave_nothing_of_the_command(self):
        running, pids = self.stubborn()
        guard = running.guard()
        token = self.inspect()["token"]
        successor = self.successor()
        os.kill(guard, signal.SIGKILL)
        running.process.kill()
        self.assert_successor_is_alone(successor, token)
        self.assert_all_gone(pids)

    def test_what_does_not_descend_from_the_command_survives_the_guards_death(self):
        os.mkfifo(self.path("fifo"))
        running = self.run_locked(
            "job", "--", "sleep", "60", cwd=self.dir,
            before=["sh", "-c", "sh -c 'read line < fifo; sleep 30 & echo $! > orphan' &"
                    ' exec "$@"', "sh"])
        running.event("started")
        guard = running.guard()
        with open(self.path("fifo"), "w", encoding="ascii") as fifo:
            fifo.write("\n")
        orphan = self.read_pids(self.path("orphan"), 1)[0]
        self.addCleanup(lambda: alive(orphan) and os.kill(orphan, signal.SIGKILL))
        self.until(lambda: not alive(parent_of(orphan)) or parent_of(orphan) in (1, running.pid),
                   "it is adopted")
        os.kill(guard, signal.SIGKILL)
        self.assertEqual(running.status(), 125)
        self.assertTrue(alive(orphan))

    def test_a_guard_killed_while_waiting_ends_the_wait_with_125(self):
        self.holder()
        waiter = self.run_locked("job", "--", "true")
        waiter.event("waiting")
        os.kill(waiter.guard(), signal.SIGKILL)
        self.assertEqual(waiter.status(), 125)
        self.assertEqual(self.inspect()["waiters"], [])

    def test_a_waiter_killed_while_waiting_leaves_no_process_and_no_command(self):
        holder = self.holder()
        waiter = self.run_locked("--ttl", "1s", "job", "--", "touch", self.path("ran"))
        waiter.event("waiting")
        guard = waiter.guard()
        waiter.process.kill()
        self.until(lambda: not alive(guard), "the guard ends with its program")
        holder.signal(signal.SIGTERM)
        self.assertEqual(self.holdfast("run", "job", "--", "true").returncode, 0)
        self.assertFalse(os.path.exists(self.path("ran")))


class StoppedTest(FaultCase):
    def test_a_stop_between_the_grant_and_the_command_does_not_end_the_command(self):
        ttl = 6
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        os.set_blocking(writer, False)
        try:
            while True:
                os.write(writer, b"." * 4096)
        except BlockingIOError:
            os.set_blocking(writer, True)
        running = self.run_locked("-v", "--ttl", f"{ttl}s", "job", "--", "true", stderr=writer)
        os.close(writer)
        running.event("acquired")  # It has no room for the next sentence, so it goes no further.
        begun = boottime()
        running.signal(signal.SIGSTOP)
        self.until(lambda: boottime() - begun > ttl - 0.7, "most of the lease is over")
        os.set_blocking(reader, False)
        with contextlib.suppress(BlockingIOError):
            while os.read(reader, 65536):
                pass
        running.signal(signal.SIGCONT)
        self.assertEqual(running.status(), 0)

    def test_a_program_stopped_beyond_its_lease_has_lost_and_its_tree_is_dead(self):
        for leases in (1, 3):
            with self.subTest(leases=leases):
                if os.path.exists(self.pids_file):
                    os.remove(self.pids_file)
                running, pids = self.stubborn(ttl="2s")
                token = self.inspect()["token"]
                running.signal(signal.SIGSTOP)
                stopped_at = boottime()
                self.assert_successor_is_alone(self.successor(), token)
                self.assert_all_gone(pids)
                self.until(lambda: boottime() >= stopped_at + 2 * leases, f"{leases} leases")
                running.signal(signal.SIGCONT)
                self.assertEqual(running.status(), 123)
                running.event("lost")

    def test_a_command_stopped_and_continued_very_often_does_not_hold_the_guard_up(self):
        running = self.run_locked("--ttl", "3s", "job", "--", "sh", "-c",
                                  "echo $$; while :; do sleep 0.1; done")
        command = int(running.line())
        running.signal(signal.SIGSTOP)  # It reads no more what the guard says.
        for _ in range(800):
            for number in (signal.SIGSTOP, signal.SIGCONT):
                try:
                    os.kill(command, number)
                except ProcessLookupError:
                    break
                time.sleep(0.001)
        self.until(lambda: not alive(command), "the command ends with its lease")
        running.signal(signal.SIGCONT)
        self.assertEqual(running.status(), 123)

    def test_half_a_lease_does_no_harm(self):
        running = self.run_locked("--ttl", "3s", "--kill-after", "100ms", "job", "--", "sh", "-c",
                                  "echo ready; read line; exit 5", stdin=-1)
        self.assertEqual(running.line(), "ready")
        running.signal(signal.SIGSTOP)
        stopped_at = boottime()
        self.until(lambda: boottime() >= stopped_at + 1.5, "half a lease")
        running.signal(signal.SIGCONT)
        running.event("renewed")
        running.process.stdin.write(b"\n")
        running.process.stdin.flush()
        self.assertEqual(running.status(), 5)

    def test_program_and_guard_stopped_do_not_let_the_tree_outlive_the_lease(self):
        running, pids = self.stubborn(ttl="2s")
        guard = running.guard()
        token = self.inspect()["token"]
        running.signal(signal.SIGSTOP)
        os.kill(guard, signal.SIGSTOP)
        self.assert_successor_is_alone(self.successor(), token)
        self.assert_all_gone(pids)
        running.signal(signal.SIGCONT)
        self.assertEqual(running.status(), 123)

    def test_three_stopped_processes_do_not_let_the_tree_outlive_the_lease(self):
        self.stop_all_and(None)

    def test_a_guard_killed_under_two_stopped_processes_does_not_either(self):
        self.stop_all_and(signal.SIGKILL)

    def stop_all_and(self, number):
        running, pids = self.stubborn()
        keeper, guard = running.keeper(), running.guard()
        token = self.inspect()["token"]
        successor = self.successor()
        for pid in (running.pid, keeper):  # In this order: each would set the next going.
            os.kill(pid, signal.SIGSTOP)
            self.until(lambda pid=pid: state_of(pid) == "T", f"{pid} stops")
        os.kill(guard, number or signal.SIGSTOP)
        self.assert_successor_is_alone(successor, token)
        self.assert_all_gone(pids)
        running.signal(signal.SIGCONT)
        self.assertEqual(running.status(), 123)

    def test_helpers_that_are_stopped_end_with_the_program(self):
        for first, second in ((0, 1), (1, 0)):
            with self.subTest(stopped_first=first):
                running = self.run_locked("--ttl", "1s", "job", "--", "sh", "-c",
                                          "echo $$; exec sleep 60")
                command = int(running.line())
                running.guard()
                helpers = running.helpers()
                running.signal(signal.SIGSTOP)
                os.kill(helpers[first], signal.SIGSTOP)
                os.kill(helpers[second], signal.SIGSTOP)
                running.process.kill()
                for pid in (command, *helpers):
                    self.until(lambda pid=pid: not alive(pid), f"{pid} of {command, helpers} ends")

    def test_a_stopped_guard_is_set_going_again(self):
        running = self.run_locked("job", "--", "sh", "-c", "echo ready; read line; exit 5",
                                  stdin=-1)
        self.assertEqual(running.line(), "ready")
        os.kill(running.guard(), signal.SIGSTOP)
        running.process.stdin.write(b"\n")
        running.process.stdin.flush()
        self.assertEqual(running.status(), 5)


class MutedTest(FaultCase):
    """Nobody reads what the program and its guard say."""

    def full_pipe(self):
        ends = os.pipe()
        for end in ends:
            self.addCleanup(os.close, end)
        # O_NONBLOCK of a descriptor of our own: the pipe itself still blocks those who inherit it.
        own = os.open(f"/proc/self/fd/{ends[1]}", os.O_WRONLY | os.O_NONBLOCK)
        try:
            while True:
                os.write(own, bytes(4096))
        except BlockingIOError:
            os.close(own)
        return ends[1]

    def stopped_terminal(self):
        ends = pty.openpty()
        for end in ends:
            self.addCleanup(os.close, end)
        termios.tcflow(ends[1], termios.TCOOFF)  # What Ctrl-S does.
        return ends[1]

    def test_a_guard_that_cannot_speak_ends_the_tree_before_the_next_one_holds(self):
        for muted in (self.full_pipe, self.stopped_terminal):
            with self.subTest(stderr=muted.__name__):
                if os.path.exists(self.pids_file):
                    os.remove(self.pids_file)
                running = self.run_locked("--ttl", "2s", "job", "--", "sh", "-c", STUBBORN,
                                          stderr=muted())
                running.event("started")
                pids = self.read_pids(self.pids_file, 4)
                token = self.inspect()["token"]
                successor = self.successor()
                running.process.kill()
                self.assert_successor_is_alone(successor, token)
                self.assert_all_gone(pids)

    def test_a_guard_that_can_speak_says_why_the_command_was_ended(self):
        running, _ = self.stubborn()
        running.process.kill()
        self.assertIn("has died: the command was ended", running.errors())

    def test_a_command_that_floods_the_pipe_does_not_hold_the_program_up(self):
        read_end, write_end = os.pipe()
        self.addCleanup(os.close, read_end)
        running = self.run_locked(
            "--json", "job", "--", "sh", "-c",
            "trap '' USR1; yes flood >&2 & yes flood >&2 & yes flood >&2 & echo up; wait", stderr=write_end)
        os.close(write_end)
        self.assertEqual(running.line(), "up")
        # Each signal is an event on the flooded pipe, and each page that is read lets the flood race
        # with it for the room.
        for _ in range(300):
            running.signal(signal.SIGUSR1)
            os.read(read_end, 4096)
        running.signal(signal.SIGTERM)
        self.assertEqual(running.status(), 128 + signal.SIGTERM)


class FewDescriptorsTest(FaultCase):
    def test_a_large_tree_is_ended_with_few_descriptors(self):
        # Each child leads a session and a group of its own, and only SIGKILL ends it.
        count = 80
        running = self.run_locked(
            "--ttl", "4s", "job", "--", "sh", "-c",
            f"for i in $(seq {count}); do setsid sh -c "
            "'trap \"\" TERM; echo $$ >> \"$PIDS\"; sleep 60; :' & done; wait",
            before=["sh", "-c", 'ulimit -n 64; exec "$@"', "sh"])
        pids = self.read_pids(self.pids_file, count)
        token = self.inspect()["token"]
        running.event("renewed")  # The guard has looked at the tree since.
        successor = self.successor()
        running.signal(signal.SIGSTOP)
        self.assert_successor_is_alone(successor, token)
        self.assert_all_gone(pids)


class LostTest(FaultCase):
    def break_lock(self):
        info = self.inspect()
        done = self.holdfast("break", "job", "--token", info["token"], "--reason", "test")
        self.assertEqual(done.returncode, 0, done.stderr)
        return info

    def test_a_broken_lock_ends_the_tree_with_123_within_the_lease(self):
        # It is told at its next renewal, and has a seventh of the lease to spare.
        running, pids = self.stubborn(ttl="6s")
        lease_end = boottime() + self.break_lock()["time_left_ms"] / 1000
        running.event("lost")
        self.assertEqual(running.status(), 123)
        self.assertLess(boottime(), lease_end)
        self.assert_all_gone(pids)

    def test_the_status_of_a_loss_can_be_remapped(self):
        running = self.run_locked("--ttl", "1s", "--exit-lost", "99", "job", "--", "sleep", "60")
        running.event("started")
        self.break_lock()
        self.assertEqual(running.status(), 99)

    def test_a_command_that_ends_well_on_being_told_still_gives_123(self):
        running = self.run_locked("--ttl", "1s", "job", "--", "sh", "-c",
                                  "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done")
        self.assertEqual(running.line(), "ready")
        self.break_lock()
        self.assertEqual(running.status(), 123)

    def test_a_loss_that_is_found_after_the_commands_end_gives_123(self):
        running = self.run_locked("--ttl", "30s", "job", "--", "sh", "-c", "echo $$; read line",
                                  stdin=-1)
        command = int(running.line())
        running.signal(signal.SIGSTOP)  # So that it learns of the break only afterwards.
        self.break_lock()
        running.process.stdin.write(b"\n")
        running.process.stdin.flush()
        self.until(lambda: not alive(command), "the command ends well")
        running.signal(signal.SIGCONT)
        self.assertEqual(running.status(), 123)

    def test_on_lost_kill_does_not_ask_first(self):
        running = self.run_locked(
            "--ttl", "1s", "--on-lost", "kill", "job", "--", "sh", "-c",
            "trap 'touch asked' TERM; echo ready; while :; do sleep 0.05; done", cwd=self.dir)
        self.assertEqual(running.line(), "ready")
        self.break_lock()
        self.assertEqual(running.status(), 123)
        self.assertFalse(os.path.exists(self.path("asked")))

    def test_on_lost_ignore_lets_the_command_end_and_says_so(self):
        running = self.run_locked("--ttl", "1s", "--on-lost", "ignore", "job", "--", "sh", "-c",
                                  "echo ready; read line; exit 6", stdin=-1)
        self.assertEqual(running.line(), "ready")
        self.break_lock()
        self.assertFalse(running.event("lost")["command_ended"])
        running.process.stdin.write(b"\n")
        running.process.stdin.flush()
        self.assertEqual(running.status(), 6)
        self.assertIn("--on-lost ignore", running.errors())


class LeftoverTest(FaultCase):
    def test_what_outlives_the_command_is_ended_before_the_lock_is_free(self):
        running = self.run_locked(
            "--kill-after", "300ms", "job", "--", "sh", "-c",
            "setsid sh -c 'trap \"\" TERM; echo $$ >> \"$PIDS\"; sleep 60; :' & "
            "while [ ! -s \"$PIDS\" ]; do sleep 0.01; done; exit 4")
        self.assertEqual(running.status(), 4)
        self.assert_all_gone(self.read_pids(self.pids_file, 1))
        self.assertIn("still running", running.errors())

    def test_leftover_wait_holds_the_lock_until_they_end(self):
        running = self.run_locked("--leftover", "wait", "job", "--", "sh", "-c",
                                  "(read line < fifo) & exit 4", cwd=self.make_fifo())
        running.event("exited")
        self.assertTrue(self.inspect()["held"])
        with open(self.path("fifo"), "w", encoding="ascii") as fifo:
            fifo.write("\n")
        self.assertEqual(running.status(), 4)
        self.assertFalse(self.inspect()["held"])

    def test_a_signal_ends_what_leftover_wait_waits_for(self):
        running = self.run_locked("--leftover", "wait", "job", "--", "sh", "-c",
                                  "sleep 60 & exit 4")
        running.event("exited")
        running.signal(signal.SIGTERM)
        self.assertEqual(running.status(), 4)

    def test_leftover_leave_leaves_them_alone_without_the_lock(self):
        running = self.run_locked("--leftover", "leave", "job", "--", "sh", "-c",
                                  'setsid sh -c \'echo $$ >> "$PIDS"; read line < fifo; :\' >&- 2>&- & '
                                  'sh -c \'echo $$ >> "$PIDS"; read line < fifo; :\' >&- 2>&- & '
                                  'while [ "$(wc -l < "$PIDS")" != 2 ]; do sleep 0.01; done; exit 4',
                                  cwd=self.make_fifo())
        running.event("released")
        self.assertEqual(running.status(), 4)
        self.assertFalse(self.inspect()["held"])
        self.assertRegex(running.errors(), "process.es. of the command go on without 'job', as --leftover leave says")
        left = self.read_pids(self.pids_file, 2)
        for pid in left:
            self.assertTrue(alive(pid))
        for pid in left:
            os.kill(pid, signal.SIGKILL)

    def test_a_loss_ends_what_leftover_leave_would_have_left(self):
        for how in ("broken", "killed", "guard killed"):
            with self.subTest(how=how):
                with open(self.pids_file, "w", encoding="ascii"):
                    pass
                running = self.run_locked("--ttl", self.TTL, "--leftover", "leave", how, "--", "sh", "-c", STUBBORN)
                token = running.event("started")["token"]
                pids = self.read_pids(self.pids_file, 4)
                if how == "broken":
                    self.holdfast("break", how, "--token", token)
                elif how == "killed":
                    running.signal(signal.SIGKILL)
                else:
                    os.kill(running.guard(), signal.SIGKILL)
                self.assertNotEqual(running.status(), 0)
                self.until(lambda: not any(alive(pid) for pid in pids), "all are gone")

    def test_leftover_leave_with_nothing_left_is_silent(self):
        done = self.holdfast("run", "--leftover", "leave", "job", "--", "sh", "-c", "exit 4")
        self.assertEqual((done.returncode, done.stderr), (4, ""))

    def make_fifo(self):
        os.mkfifo(self.path("fifo"))
        return self.dir


if __name__ == "__main__":
    harness.main()
