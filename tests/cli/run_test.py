"""`holdfast run`: exit status, environment, signals, nesting."""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time

import harness
from harness import PROGRAM, CliCase, alive


class ExitStatusTest(CliCase):
    def status(self, *arguments, **options):
        return self.holdfast("run", *arguments, **options).returncode

    def test_the_commands_own_status_is_passed_on(self):
        self.assertEqual(self.status("job", "--", "true"), 0)
        self.assertEqual(self.status("job", "--", "sh", "-c", "exit 7"), 7)

    def test_a_command_ended_by_a_signal_gives_128_and_its_number(self):
        self.assertEqual(self.status("job", "--", "sh", "-c", "kill -TERM $$"), 143)
        self.assertEqual(self.status("job", "--", "sh", "-c", "kill -KILL $$"), 137)

    def test_a_command_that_cannot_be_run_gives_126_or_127(self):
        done = self.holdfast("run", "job", "--", self.path("missing"))
        self.assertEqual(done.returncode, 127)
        self.assertIn("No such file", done.stderr)
        self.assertEqual(self.status("job", "--", "no-such-program-anywhere"), 127)
        self.assertEqual(self.status("job", "--", self.dir), 126)
        with open(self.path("plain"), "w", encoding="ascii") as file:
            file.write("data")
        self.assertEqual(self.status("job", "--", self.path("plain")), 126)
        self.assertFalse(self.inspect()["held"], "given back after a command that cannot be run")

    def test_own_failures_give_125(self):
        self.assertEqual(self.status("--tll", "5s", "job", "--", "true"), 125)
        self.assertEqual(self.status("job"), 125)
        self.assertEqual(self.status("job", "--"), 125)
        self.assertEqual(self.status("--store", "sqlite:///proc/no/locks.db", "job", "--", "true"),
                         125)
        self.assertEqual(self.status("--store", "nonsense://x", "job", "--", "true"), 125)

    def test_a_held_lock_gives_124_when_time_is_up(self):
        self.holder()
        self.assertEqual(self.status("--no-wait", "job", "--", "true"), 124)
        self.assertEqual(self.status("--wait", "200ms", "job", "--", "true"), 124)
        self.assertEqual(self.inspect()["waiters"], [])

    def test_own_codes_can_be_remapped(self):
        self.holder()
        self.assertEqual(
            self.status("--no-wait", "--exit-timeout", "75", "job", "--", "true"), 75)
        self.assertEqual(
            self.status("--no-wait", "--exit-timeout", "0", "job", "--", "false"), 0)
        self.assertEqual(self.status("--exit-error", "76", "--bad", "job", "--", "true"), 76)
        self.assertEqual(self.status("--exit-error", "77", "--store", "nonsense://x", "job", "--",
                                     "true"), 77)

    def test_exit_error_is_honoured_for_every_mistake(self):
        with open(self.path("c.toml"), "w", encoding="utf-8") as file:
            file.write("ttl = '3s'\n[run]\nkill_after = '2s'\nexit_error = 78\n")
        with open(self.path("bad.toml"), "w", encoding="utf-8") as file:
            file.write("ttl = 'x'\n[run]\nexit_error = 78\n")
        for options in (["--exit-error", "78", "--ttl", "garbage"],
                        ["--ttl", "garbage", "--exit-error", "78"],
                        ["--exit-error=78", "--wait"], ["--wait", "--exit-error", "78"],
                        ["--exit-error", "78", "--on-lost", "x", "--permits", "x"],
                        ["--exit-error", "78", "--config", self.path("missing.toml")],
                        ["--exit-error", "78", "--ttl", "1s", "--kill-after", "1s"],
                        ["--exit-error", "78", "--min-hold", "2s", "--max-hold", "1s"],
                        ["--exit-error", "78", "--json-fd", "99"],
                        ["--config", self.path("c.toml")], ["--config", self.path("bad.toml")]):
            with self.subTest(options=options):
                self.assertEqual(self.status(*options, "job", "--", "true"), 78)
        self.assertEqual(self.status("--exit-error", "300", "job", "--", "true"), 125)

    def limited(self, option, limit, *arguments):
        return subprocess.run(["sh", "-c", f'ulimit {option} {limit}; exec "$@"', "sh", PROGRAM,
                               *arguments], env=self.env, timeout=20, capture_output=True,
                              text=True, check=False)

    def test_a_system_without_descriptors_gives_125(self):
        if self.limited("-v", 60_000, "version").returncode:
            self.skipTest("a sanitizer's own checks need descriptors")
        for limit in range(4, 14):
            for verb in (["run", "job", "--", "true"], ["acquire", "--no-wait", f"job-{limit}"]):
                with self.subTest(limit=limit, verb=verb[0]):
                    done = self.limited("-n", limit, *verb)
                    self.assertIn(done.returncode, (0, 125), done.stderr)
                    if done.returncode:
                        self.assertIn("holdfast: ", done.stderr)
                        self.assertNotIn("internal error", done.stderr)

    def test_a_system_without_memory_gives_125(self):
        if self.limited("-v", 60_000, "version").returncode:
            self.skipTest("this build needs more memory (a sanitizer does)")
        seen = set()
        # Small steps, because another place runs out of memory at each.
        for kilobytes in range(15_000, 60_000, 400):
            done = self.limited("-v", kilobytes, "run", "job", "--", "true")
            seen.add(done.returncode)
            # Otherwise its libraries could not be loaded, or it ended before main().
            if not self.limited("-v", kilobytes, "version").returncode:
                self.assertIn(done.returncode, (0, 125), done.stderr)
                self.assertNotIn("internal error", done.stderr)
                if "cannot start" in done.stderr:
                    self.assertIn("or a limit of it", done.stderr)
                    self.assertNotIn("Is it up", done.stderr)
        self.assertIn(125, seen)

    def test_a_very_long_command_line_runs(self):
        words = ["x" * 100_000] * 8
        done = self.holdfast("run", "job", "--", "sh", "-c", 'echo $#', "sh", *words)
        self.assertEqual((done.returncode, done.stdout), (0, "8\n"), done.stderr)

    def test_an_environment_that_is_too_long_gives_126(self):
        held = json.dumps([["\u00e9" * 60_000, "o", "t"]], ensure_ascii=False)
        done = self.holdfast("run", "job", "--", "true",
                             env={**self.env, "HOLDFAST_HELD": held})
        self.assertEqual(done.returncode, 126)
        self.assertIn("too long", done.stderr)
        self.assertFalse(self.inspect()["held"])

    def test_kill_after_beyond_a_third_of_the_lease_is_refused(self):
        done = self.holdfast("run", "--ttl", "3s", "--kill-after", "1100ms", "job", "--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("third", done.stderr)

    def test_kept_by_min_hold(self):
        for command, status, ttl in (("true", 0, "2s"), ("exit 3", 3, "20m"), ("kill -TERM $$", 143, "30s")):
            with self.subTest(command=command):
                name = command.replace(" ", "-")
                running = self.run_locked("--ttl", ttl, "--min-hold", "50s", name, "--", "sh", "-c", command)
                kept = running.event("kept")
                self.assertEqual(running.status(), status, "at once, as the command ended")
                self.assertTrue(30_000 < kept["time_left_ms"] <= 50_000)
                left = self.inspect(name)["holders"][0]["time_left_ms"]
                self.assertTrue(30_000 < left <= 52_000, f"until min-hold is over, not the lease: {left}")
                self.assertIn(f"the lock '{name}' stays held until ", running.errors())
                self.assertEqual(self.status("--no-wait", name, "--", "true"), 124)
        done = self.holdfast("run", "-q", "--min-hold", "1500ms", "quiet", "--", "true")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.status("--wait", "30s", "quiet", "--", "true"), 0, "it ends by itself")

    def test_min_hold_also_keeps_shared_locks_and_permits(self):
        for mode in (["--shared"], ["--permits", "1/2"]):
            with self.subTest(mode=mode):
                name = mode[0]
                done = self.holdfast("run", "--min-hold", "50s", *mode, "--", name, "--", "true")
                self.assertEqual(done.returncode, 0, done.stderr)
                info = json.loads(self.holdfast("inspect", "--json", "--", name).stdout)
                self.assertGreater(info["holders"][0]["time_left_ms"], 30_000)

    def test_min_hold_keeps_the_lock_when_all_is_killed(self):
        running = self.run_locked("--ttl", "2s", "--min-hold", "50s", "job", "--", "sleep", "60")
        running.event("started")
        running.signal(signal.SIGKILL)
        running.status()
        self.assertGreater(self.inspect()["holders"][0]["time_left_ms"], 30_000)

    def test_lock_delay_keeps_others_out_when_all_is_killed(self):
        running = self.run_locked("--ttl", "2s", "--lock-delay", "50s", "job", "--", "sleep", "60")
        running.event("started")
        running.signal(signal.SIGKILL)
        running.status()
        self.assertGreater(self.inspect()["holders"][0]["time_left_ms"], 30_000)
        self.assertEqual(self.status("--no-wait", "job", "--", "true"), 124)

    def test_an_inspection_tells_that_only_a_lock_delay_keeps_a_lock_closed(self):
        running = self.run_locked("--ttl", "1s", "--lock-delay", "50s", "job", "--", "sleep", "60")
        running.event("started")
        self.assertNotIn("opens_in_ms", self.inspect())
        running.signal(signal.SIGKILL)
        running.status()
        self.until(lambda: "opens_in_ms" in self.inspect(), "its lease is over")
        info = self.inspect()
        self.assertTrue(30_000 < info["opens_in_ms"] <= 50_000, info["opens_in_ms"])
        self.assertEqual(info["holders"][0]["lock_delay_ms"], 50_000)
        self.assertIn("the lock-delay keeps it closed for", self.holdfast("inspect", "job").stdout)

    def test_lock_delay_keeps_nothing_after_the_commands_end(self):
        self.assertEqual(self.status("--lock-delay", "50s", "job", "--", "true"), 0)
        self.assertEqual(self.status("--no-wait", "job", "--", "true"), 0)
        with open(self.path("config"), "w", encoding="ascii") as file:
            file.write('[names."jo"]\nlock_delay = "25h"\n')
        done = self.holdfast("run", "--config", self.path("config"), "job", "--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("lock_delay are at most 24 h", done.stderr)

    def test_lock_delay_of_a_name_outlasts_the_renewal_of_an_acquired_lock(self):
        with open(self.path("config"), "w", encoding="ascii") as file:
            file.write('[names."jo"]\nlock_delay = "500s"\n')
        lease = self.holdfast("acquire", "--config", self.path("config"), "--ttl", "2s", "job").stdout.strip()
        self.assertGreater(self.inspect()["holders"][0]["time_left_ms"], 450_000)
        done = self.holdfast("renew", "--config", self.path("config"), "--ttl", "400s", lease)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(self.inspect()["holders"][0]["time_left_ms"], 800_000)
        self.assertEqual(self.status("--no-wait", "job", "--", "true"), 124)
        self.assertEqual(self.holdfast("release", lease).returncode, 0)
        self.assertEqual(self.status("--no-wait", "job", "--", "true"), 0)

    def test_a_signal_does_not_give_back_what_min_hold_keeps(self):
        running = self.run_locked("--min-hold", "50s", "job", "--", "sleep", "60")
        running.event("started")
        running.signal(signal.SIGTERM)
        self.assertEqual(running.status(), 143)
        self.assertTrue(self.inspect()["held"])

    def test_min_hold_keeps_nothing_where_nothing_ran(self):
        self.assertEqual(self.status("--min-hold", "50s", "job", "--", "/no/such"), 127)
        self.assertFalse(self.inspect()["held"])
        self.assertEqual(self.status("--min-hold", "25h", "job", "--", "true"), 125)

    def test_a_loss_that_min_hold_finds_is_told(self):
        running = self.run_locked("--ttl", "20m", "--min-hold", "10m", "job", "--", "cat", stdin=-1)
        token = running.event("started")["token"]
        self.assertEqual(self.holdfast("break", "job", "--token", token).returncode, 0)
        running.process.stdin.close()
        running.event("lost")
        self.assertEqual(running.status(), 123)
        self.assertFalse(self.inspect()["held"])

    def test_max_hold_ends_the_command_under_the_lock_with_122(self):
        running = self.run_locked("--max-hold", "500ms", "--ttl", "3s", "job", "--", "sleep", "60")
        self.assertIn("--max-hold", running.event("max_hold")["message"])
        self.assertEqual(running.status(), 122)
        self.assertTrue(running.event("released"), "given back, not left to its lease")
        self.assertFalse(self.inspect()["held"])

    def test_max_hold_of_what_ignores_sigterm_ends_with_its_sigkill(self):
        done = self.holdfast("run", "--max-hold", "300ms", "--ttl", "6s", "--kill-after", "200ms",
                             "job", "--", "sh", "-c", "trap '' TERM; sleep 60")
        self.assertEqual(done.returncode, 122)
        self.assertIn("--max-hold allows, 300ms", done.stderr)
        self.assertNotIn("lost", done.stderr)

    def test_hold_gives_back_when_max_hold_is_over(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, writer)
        done = subprocess.run([PROGRAM, "hold", "--max-hold", "300ms", "job"], env=self.env,
                              stdin=reader, capture_output=True, text=True, timeout=20, check=False)
        os.close(reader)
        self.assertEqual(done.returncode, 122, done.stderr)
        self.assertIn("gave back the lock 'job' (sqlite:", done.stderr)
        self.assertFalse(self.inspect()["held"])

    def test_max_hold_has_an_exit_status_of_its_own(self):
        with open(self.path("c.toml"), "w", encoding="utf-8") as file:
            file.write("[run]\nexit_max_hold = 76\n")
        for options, status in ((["--exit-max-hold", "75"], 75), (["--config", self.path("c.toml")], 76),
                                (["--exit-lost", "77"], 122)):
            with self.subTest(options=options):
                self.assertEqual(self.status("--max-hold", "100ms", *options, "job", "--", "sleep", "60"), status)

    def test_a_loss_before_max_hold_is_a_loss(self):
        running = self.run_locked("--max-hold", "50s", "--ttl", "900ms", "job", "--", "sleep", "60")
        token = running.event("started")["token"]
        self.assertEqual(self.holdfast("break", "job", "--token", token).returncode, 0)
        running.event("lost")
        self.assertEqual(running.status(), 123)

    def test_max_hold_ends_what_the_command_left(self):
        running = self.run_locked("--max-hold", "1s", "--leftover", "wait", "job", "--", "sh", "-c", "sleep 60 &")
        self.assertEqual(running.event("exited")["status"], 0)
        running.event("max_hold")
        self.assertEqual(running.status(), 122)

    def test_hold_tells_of_max_hold_as_an_event(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, writer)
        done = subprocess.run([PROGRAM, "hold", "--json", "--max-hold", "300ms", "job"], env=self.env,
                              stdin=reader, capture_output=True, text=True, timeout=20, check=False)
        os.close(reader)
        self.assertEqual([json.loads(line)["event"] for line in done.stdout.splitlines()],
                         ["acquired", "max_hold", "released"])


class EnvironmentTest(CliCase):
    def variables(self, *arguments, env=None):
        done = self.holdfast("run", *arguments, "--", "env", "-0", env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        pairs = [entry.split("=", 1) for entry in done.stdout.split("\0") if "=" in entry]
        names = [name for name, _ in pairs]
        self.assertEqual(len(names), len(set(names)), "no variable twice")
        return dict(pairs)

    def test_the_command_gets_the_lock(self):
        env = self.variables("job")
        self.assertEqual(env["HOLDFAST_NAME"], "job")
        self.assertRegex(env["HOLDFAST_TOKEN"], r"^\d{10}\.\d{20}$")
        self.assertRegex(env["HOLDFAST_DEADLINE"], r"^\d+\.\d{3}$")
        self.assertEqual(env["HOLDFAST_MODE"], "exclusive")
        self.assertTrue(env["HOLDFAST_OWNER"])
        self.assertEqual(env["HOLDFAST_STORE"], self.store)

    def test_inherited_variables_are_replaced(self):
        env = self.variables("job", env={**self.env, "HOLDFAST_NAME": "stale",
                                         "HOLDFAST_TOKEN": "1"})
        self.assertEqual(env["HOLDFAST_NAME"], "job")
        self.assertNotEqual(env["HOLDFAST_TOKEN"], "1")

    def test_the_store_option_reaches_the_command(self):
        other = f"sqlite://{self.dir}/other.db"
        self.assertEqual(self.variables("--store", other, "job")["HOLDFAST_STORE"], other)

    def test_a_command_is_passed_as_it_is(self):
        done = self.holdfast("run", "job", "--", "printf", "%s\n", "[a,b]", "--", "{}", "", "-x")
        self.assertEqual(done.stdout, "[a,b]\n--\n{}\n\n-x\n")

    def test_standard_input_reaches_the_command(self):
        done = self.holdfast("run", "job", "--", "cat", stdin="from outside")
        self.assertEqual(done.stdout, "from outside")

    def test_nobody_but_the_command_holds_its_input_and_output_open(self):
        left = "echo over; sleep 60 <&- >&- 2>&- &"  # What holdfast waits for does not have them.
        running = self.run_locked("--leftover", "wait", "job", "--", "sh", "-c", left, stdin=-1)
        running.event("exited")
        self.assertEqual(running.process.stdout.read(), b"over\n")
        with self.assertRaises(BrokenPipeError):
            os.write(running.process.stdin.fileno(), b"x")
        self.assertIsNone(running.process.poll())
        running.process.stdout.close()

    def test_blocked_and_ignored_signals_are_as_before(self):
        done = self.holdfast("run", "job", "--", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status")
        plain = subprocess.run(["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"],
                               capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, plain.stdout)


NAMES = ["{a}{b}", "a/b//c", "it's \"quoted\" `x` $y", "%41 %", "* ? [x]", "über/ℵ", "n" * 256, " "]


class NestingTest(CliCase):
    def nested(self, outer, inner, *options):
        return self.holdfast("run", outer, "--", self.program, "run", *options, inner, "--",
                             "printenv", "HOLDFAST_NAME")

    def setUp(self):
        super().setUp()
        self.program = os.path.abspath(PROGRAM)

    def test_the_same_name_is_refused_at_once(self):
        done = self.nested("job", "job")
        self.assertEqual(done.returncode, 125)
        self.assertIn("deadlock", done.stderr)

    def test_the_same_store_by_another_spelling_is_the_same(self):
        os.symlink(self.dir, self.path("link"))
        file = self.path("locks.db")
        for url in (f"sqlite://{self.dir}/link/locks.db?ttl=20s", f"sqlite:{file}",
                    f"SQLITE://{file}", f"sqlite://{self.dir}/./x/..//locks.db",
                    f"sqlite://{file}?ttl=9s", f"sqlite://{self.dir}/%6Cocks.db"):
            with self.subTest(url=url):
                done = self.nested("job", "job", "--wait", "2s", "--store", url)
                self.assertEqual(done.returncode, 125, done.stderr)
                self.assertIn("deadlock", done.stderr)

    def test_the_same_lock_in_a_store_that_is_named_by_another_source_is_the_same(self):
        with open(self.path("c.toml"), "w", encoding="utf-8") as file:
            file.write(f'store = "sqlite:{self.dir}/locks.db"\n')
        done = self.holdfast("run", "job", "--", "env", "-u", "HOLDFAST_STORE", self.program, "run",
                             "--config", self.path("c.toml"), "--wait", "2s", "job", "--", "true")
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("deadlock", done.stderr)

    def test_other_names_and_other_stores_nest(self):
        done = self.nested("outer", "inner")
        self.assertEqual((done.returncode, done.stdout), (0, "inner\n"), done.stderr)
        done = self.nested("job", "job", "--store", f"sqlite://{self.dir}/other.db")
        self.assertEqual((done.returncode, done.stdout), (0, "job\n"), done.stderr)

    def test_names_of_any_kind_work_and_are_recognised(self):
        for name in NAMES:
            with self.subTest(name=name):
                done = self.nested(name, name)
                self.assertEqual(done.returncode, 125, done.stderr)
                self.assertIn("deadlock", done.stderr)

    def test_a_variable_that_outlived_its_lock_is_no_deadlock(self):
        done = self.holdfast("run", "job", "--", "printenv", "HOLDFAST_HELD")
        env = {**self.env, "HOLDFAST_HELD": done.stdout.strip()}
        self.assertEqual(self.holdfast("run", "job", "--", "true", env=env).returncode, 0)
        for junk in ("", "{", "[1,[2]]", '[["a","b"]]'):
            env["HOLDFAST_HELD"] = junk
            self.assertEqual(self.holdfast("run", "job", "--", "true", env=env).returncode, 0)

    def test_a_name_like_an_option_stands_behind_dashes(self):
        done = self.holdfast("run", "--ttl", "5s", "--", "-x", "--", "printenv", "HOLDFAST_NAME")
        self.assertEqual((done.returncode, done.stdout), (0, "-x\n"), done.stderr)
        lease = self.holdfast("acquire", "--", "-x")
        self.assertEqual(lease.returncode, 0, lease.stderr)
        self.assertTrue(json.loads(self.holdfast("inspect", "--json", "--", "-x").stdout)["held"])
        self.assertEqual(self.holdfast("release", lease.stdout.strip()).returncode, 0)
        done = self.holdfast("run", "-j", "--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("-- -j", done.stderr)

    def test_any_name_may_stand_between_dashes(self):
        for name in ("job", "--", "-", "a b"):
            with self.subTest(name=name):
                for options in ([], ["--ttl", "5s"], ["--no-wait"]):
                    done = self.holdfast("run", *options, "--", name, "--", "printenv",
                                         "HOLDFAST_NAME")
                    self.assertEqual((done.returncode, done.stdout), (0, name + "\n"),
                                     done.stderr)
        done = self.holdfast("run", "job", "--", "echo", "--", "a")
        self.assertEqual((done.returncode, done.stdout), (0, "-- a\n"), done.stderr)

    def test_impossible_names_are_refused(self):
        for name in ["", "n" * 257, "a\x01b", "a/../b", b"\xff\xfe"]:
            with self.subTest(name=name):
                self.assertEqual(self.holdfast("run", name, "--", "true").returncode, 125)


class ReenterTest(CliCase):
    def setUp(self):
        super().setUp()
        self.env["HF"] = os.path.abspath(PROGRAM)

    def script(self, *options, inner, outer=("run",), **more):
        """`inner` runs in a shell under the lock 'job'."""
        return self.holdfast(*outer, *options, "job", "--", "sh", "-c", inner, **more)

    def test_it_runs_under_the_lease_of_the_run_around_it(self):
        show = "env | grep -E '^HOLDFAST_(NAME|TOKEN|MODE|OWNER|HELD|STORE)=' | sort"
        done = self.script(inner=f'{show}; echo --; "$HF" run --reenter --no-wait job -- sh -c "{show}"')
        self.assertEqual(done.returncode, 0, done.stderr)
        outer, inner = done.stdout.split("--\n")
        self.assertEqual(inner, outer, "the same token, and no second lease")
        done = self.script(inner='"$HF" inspect --json job; "$HF" run --reenter job -- "$HF" inspect --json job')
        outer, inner = (json.loads(line) for line in done.stdout.splitlines())
        self.assertEqual((len(inner["holders"]), len(inner["waiters"]), inner["token"]),
                         (1, 0, outer["token"]))
        self.assertEqual(self.script(inner='"$HF" run --reenter job -- sh -c "exit 7"').returncode, 7)
        self.assertEqual(self.script(inner='"$HF" run --reenter job -- /no/such').returncode, 127)

    def test_behind_another_lock_it_has_the_variables_of_its_own(self):
        done = self.script(inner='echo $HOLDFAST_TOKEN; "$HF" run other -- "$HF" run --reenter job -- '
                                 'sh -c "echo \\$HOLDFAST_TOKEN \\$HOLDFAST_NAME"')
        token, inner = done.stdout.splitlines()
        self.assertEqual(inner, f"{token} job", done.stderr)

    def test_its_event_names_token_and_holder(self):
        done = self.script(inner='"$HF" run --json --reenter job -- printenv HOLDFAST_OWNER')
        event = json.loads(done.stderr)
        self.assertEqual((event["event"], event["holder"]), ("reentered", done.stdout.strip()))
        self.assertRegex(event["token"], r"^\d{10}\.\d{20}$")

    def test_without_a_run_around_it_takes_the_lock(self):
        done = self.holdfast("run", "--reenter", "job", "--", "printenv", "HOLDFAST_TOKEN")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.holder()
        self.assertEqual(self.holdfast("run", "--reenter", "--no-wait", "job", "--", "true").returncode, 124)
        self.assertEqual(self.script(outer=("run", "--store", f"sqlite://{self.dir}/other.db"),
                                     inner=f'"$HF" run --store {self.store} --reenter --no-wait job -- true').returncode,
                         124, "the same name elsewhere is another lock")

    def test_a_variable_that_outlived_its_lease_is_not_believed(self):
        stale = self.script(inner='printenv HOLDFAST_HELD').stdout.strip()
        self.holder()
        done = self.holdfast("run", "--reenter", "--no-wait", "job", "--", "true",
                             env={**self.env, "HOLDFAST_HELD": stale})
        self.assertEqual(done.returncode, 124, "somebody else holds it now")

    def test_a_lease_that_was_broken_is_not_run_under(self):
        running = self.run_locked("--ttl", "30s", "--on-lost", "ignore", "job", "--", "sh", "-c",
                                  'read line; "$HF" run --reenter --no-wait job -- printenv HOLDFAST_TOKEN', stdin=-1)
        token = running.event("started")["token"]
        self.assertEqual(self.holdfast("break", "job", "--token", token).returncode, 0)
        running.process.stdin.write(b"\n")
        running.process.stdin.flush()
        self.assertGreater(running.line(), token)
        running.status()

    def test_who_does_not_descend_from_the_holder_is_refused(self):
        holder = self.run_locked("job", "--", "sh", "-c", "echo $HOLDFAST_HELD; sleep 60")
        env = {**self.env, "HOLDFAST_HELD": holder.line()}
        done = self.holdfast("run", "--reenter", "job", "--", "true", env=env)
        self.assertEqual(done.returncode, 125)
        self.assertIn("does not descend from it", done.stderr)

    def test_a_weaker_lock_does_not_cover_a_stronger_one(self):
        for outer, inner, status in ((["--shared"], "", 125), (["--shared"], "--shared", 0), ([], "--shared", 0),
                                     (["--permits", "1/2"], "--permits 1/2", 0), (["--permits", "1/2"], "", 125)):
            with self.subTest(outer=outer, inner=inner):
                done = self.script(*outer, inner=f'"$HF" run --reenter {inner} job -- true')
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertEqual("in another mode" in done.stderr, status == 125)

    def test_a_loss_ends_it_with_the_run_around_it(self):
        running = self.run_locked("--ttl", "2s", "job", "--", "sh", "-c",
                                  '"$HF" run --reenter job -- sh -c "echo \\$\\$; exec sleep 60"')
        token = running.event("started")["token"]
        pid = int(running.line())
        self.assertEqual(self.holdfast("break", "job", "--token", token).returncode, 0)
        self.assertEqual(running.status(), 123)
        self.assertFalse(alive(pid))


class MetricsTest(CliCase):
    def figures(self, *options, name="job", command=("true",), status=0):
        """What the run leaves: values by series, without the labels that all have."""
        done = self.holdfast("run", "--metrics-textfile", self.path("m/job.prom"), *options, name, "--", *command)
        self.assertEqual(done.returncode, status, done.stderr)
        with open(self.path("m/job.prom"), encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(os.listdir(self.path("m")), ["job.prom"], "no draft is left")
        values = {}
        kinds = set()
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                self.assertEqual(line.split()[3], "gauge")
                kinds.add(line.split()[2])
            elif not line.startswith("# HELP "):
                series, labels, value = re.fullmatch(r"(\w+)\{(.*)\} ([0-9.]+)", line).groups()
                self.assertIn(series, kinds)
                self.labels = re.sub(r',outcome="\w+"', "", labels)
                outcome = re.search(r'outcome="(\w+)"', labels)
                values[series.removeprefix("holdfast_run_") + (":" + outcome[1] if outcome else "")] = float(value)
        return values

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("m"))

    def outcome(self, values):
        return [word for word, value in values.items() if word.startswith("outcome:") and value == 1]

    def test_a_run_leaves_its_figures(self):
        begun = time.time()
        values = self.figures(command=("sh", "-c", "sleep 0.3"))
        self.assertEqual(self.labels, 'lock="job",command="sh",mode="exclusive",store="sqlite"')
        self.assertEqual((self.outcome(values), values["exit_status"]), (["outcome:success"], 0))
        self.assertEqual(len([word for word in values if word.startswith("outcome:")]), 7)
        self.assertTrue(begun - 1 < values["success_timestamp_seconds"] == values["end_timestamp_seconds"])
        self.assertGreaterEqual(values["hold_seconds"], 0.3)
        self.assertGreaterEqual(values["wait_seconds"], 0)
        epoch, counter = self.inspect()["last_token"].split(".")
        self.assertEqual((values["token_epoch"], values["token_counter"]), (float(epoch), float(counter)))
        self.assertEqual(os.stat(self.path("m/job.prom")).st_mode & 0o777, 0o644)

    def test_every_end_has_its_word_and_the_last_success_stays(self):
        success = self.figures(command=("sh", "-c", "true"))["success_timestamp_seconds"]
        for options, command, status, word in (
                ([], ("sh", "-c", "exit 3"), 3, "failed"), ([], ("sh", "-c", "kill -9 $$"), 137, "failed"),
                (["--max-hold", "100ms"], ("sh", "-c", "sleep 60"), 122, "max_hold"),
                (["--store", "sqlite:///proc/x/l.db"], ("sh", "-c", "true"), 125, "error")):
            with self.subTest(command=command):
                values = self.figures(*options, command=command, status=status)
                self.assertEqual((self.outcome(values), values["exit_status"]), (["outcome:" + word], status))
                self.assertEqual(values["success_timestamp_seconds"], success)
        values = self.figures(command=("sh", "-c", "true"))
        self.assertGreater(values["success_timestamp_seconds"], success)
        values = self.figures(command=("/no/such",), status=127)
        self.assertEqual(self.outcome(values), ["outcome:error"])
        self.assertNotIn("success_timestamp_seconds", values, "that was another command's")
        self.holder()
        values = self.figures("--no-wait", status=124)
        self.assertEqual(self.outcome(values), ["outcome:timeout"])
        self.assertNotIn("hold_seconds", values)
        self.assertNotIn("token_epoch", values)
        values = self.figures("--no-wait", "--exit-timeout", "0")
        self.assertEqual((self.outcome(values), values["exit_status"]), (["outcome:timeout"], 0))

    def test_a_loss_and_a_signal_while_waiting(self):
        for word in ("lost", "cancelled"):
            if word == "cancelled":
                self.holder()
            path = self.path(word)
            running = self.run_locked("--ttl", "900ms", "--metrics-textfile", path, "job", "--", "sleep", "60")
            if word == "lost":
                self.holdfast("break", "job", "--token", running.event("started")["token"])
            else:
                running.event("waiting")
                running.signal(signal.SIGTERM)
            running.status()
            with open(path, encoding="utf-8") as file:
                self.assertIn(f'outcome="{word}"}} 1', file.read())

    def test_names_are_escaped(self):
        name = 'it\'s "quoted" \\ {x}'
        self.figures(name=name)
        self.assertIn('lock="it\'s \\"quoted\\" \\\\ {x}",', self.labels)

    def test_a_file_that_cannot_be_written_is_told_and_changes_nothing(self):
        for path, why in ((self.path("none/x.prom"), "No such file"), (self.path("m"), "no regular file"),
                          ("/dev/null", "no regular file")):
            with self.subTest(path=path):
                done = self.holdfast("run", "-q", "--metrics-textfile", path, "job", "--", "sh", "-c", "exit 3")
                self.assertEqual(done.returncode, 3)
                self.assertRegex(done.stderr, f"cannot write the metrics to '{path}': .*{why}")


class SignalTest(CliCase):
    ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1,
              signal.SIGUSR2)

    def test_signals_are_honoured_while_waiting(self):
        self.holder()
        for number in self.ENDING:
            with self.subTest(signal=number):
                waiter = self.run_locked("job", "--", "true")
                self.assertTrue(waiter.event("waiting")["holders"])
                waiter.signal(number)
                self.assertEqual(waiter.status(), 128 + number)
        self.assertEqual(self.inspect()["waiters"], [], "all have left the queue")

    def test_signals_that_mean_nothing_do_not_end_the_wait(self):
        holder = self.holder()
        waiter = self.run_locked("job", "--", "true")
        waiter.event("waiting")
        waiter.signal(signal.SIGWINCH)
        waiter.signal(signal.SIGURG)
        holder.signal(signal.SIGTERM)
        self.assertEqual(waiter.status(), 0)

    def test_every_signal_is_passed_on(self):
        for name in ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "WINCH", "ALRM", "URG"):
            with self.subTest(signal=name):
                # Blocked first: a signal between 'ready' and a pause would wake nobody.
                script = ("import signal, sys\n"
                          f"signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIG{name}])\n"
                          "print('ready', flush=True)\n"
                          f"signal.sigwait([signal.SIG{name}])\n"
                          f"print('got {name}', flush=True)\n"
                          "sys.exit(9)")
                running = self.run_locked("job", "--", sys.executable, "-c", script)
                self.assertEqual(running.line(), "ready")
                running.signal(getattr(signal, "SIG" + name))
                self.assertEqual(running.line(), "got " + name)
                self.assertEqual(running.status(), 9)

    def test_an_unhandled_signal_ends_the_command_and_says_so(self):
        running = self.run_locked("job", "--", "sleep", "60")
        running.event("started")
        running.signal(signal.SIGTERM)
        self.assertEqual(running.event("exited")["signal"], "TERM")
        self.assertEqual(running.status(), 143)
        self.assertFalse(self.inspect()["held"])

    def test_an_ignored_hangup_stays_ignored(self):
        running = self.run_locked("job", "--", "sh", "-c", "echo ready; sleep 0.5; echo done",
                                  preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.assertEqual(running.line(), "ready")
        running.signal(signal.SIGHUP)
        self.assertEqual(running.line(), "done")
        self.assertEqual(running.status(), 0)


    def test_an_ignored_hangup_does_not_end_the_wait(self):
        holder = self.holder()
        waiter = self.run_locked("job", "--", "true",
                                 preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        waiter.event("waiting")
        waiter.signal(signal.SIGHUP)
        holder.signal(signal.SIGTERM)
        self.assertEqual(waiter.status(), 0)


class EventsTest(CliCase):
    FIELDS = {"event", "time", "name", "token", "owner", "host", "pid", "since", "time_left_ms",
              "reason", "trace_id", "store"}

    def test_events_have_their_fields_and_order(self):
        running = self.run_locked("--reason", "nightly", "job", "--", "true")
        for word in ("acquired", "started", "exited", "released"):
            event = running.event(word)
            self.assertLessEqual(self.FIELDS, set(event))
            self.assertEqual(event["name"], "job")
            self.assertEqual(event["reason"], "nightly")
            self.assertIsInstance(event["token"], str)
            self.assertEqual(event["pid"], running.pid)
        self.assertEqual(running.status(), 0)

    def test_every_error_event_has_a_code(self):
        for code, status, options in (
                ("kCommandNotFound", 127, ["job", "--", "/no/such"]),
                ("kCommandCannotRun", 126, ["job", "--", "/"]),
                ("kInvalidArgument", 125, ["--store", "nonsense://x", "job", "--", "true"]),
                ("kUnavailable", 125, ["--store", "sqlite:///proc/x/l.db", "job", "--", "true"])):
            with self.subTest(code=code):
                running = self.run_locked(*options)
                event = running.event("error")
                self.assertLessEqual(self.FIELDS | {"message", "code"}, set(event))
                self.assertEqual((event["code"], running.status()), (code, status))
        running = self.run_locked("job", "--", "sleep", "60")
        running.event("started")
        os.kill(running.guard(), signal.SIGKILL)
        self.assertEqual(running.event("error")["code"], "kGuardDied")

    def test_a_command_that_cannot_be_run_has_neither_started_nor_exited(self):
        running = self.run_locked("job", "--", "/no/such")
        self.assertEqual(running.words(), ["acquired", "released", "error"])

    def test_all_events_have_all_fields(self):
        holder = self.run_locked("--ttl", "900ms", "job", "--", "sleep", "60")
        told = [holder.event("renewed")]
        for running, word in ((self.run_locked("--wait", "1s", "job", "--", "true"), "timeout"),
                              (self.run_locked("job", "--", "true"), "cancelled")):
            told.append(running.event("waiting"))
            if word == "cancelled":
                running.signal(signal.SIGTERM)
            told.append(running.event(word))
        holder.signal(signal.SIGUSR1)
        told += [holder.event(word) for word in ("signal", "exited", "released")]
        for event in told:
            with self.subTest(event=event["event"]):
                self.assertLessEqual(self.FIELDS, set(event))

    def test_json_goes_to_standard_error(self):
        done = self.holdfast("run", "--json", "job", "--", "echo", "mine")
        self.assertEqual(done.stdout, "mine\n")
        words = [json.loads(line)["event"] for line in done.stderr.splitlines()]
        self.assertEqual(words, ["acquired", "started", "exited", "released"])

    def test_a_descriptor_that_is_not_open_is_refused(self):
        self.assertEqual(
            self.holdfast("run", "--json-fd", "77", "job", "--", "true").returncode, 125)

    def test_a_descriptor_that_is_open_for_reading_only_is_refused(self):
        read_end, write_end = os.pipe()
        done = self.holdfast("run", "--json-fd", str(read_end), "job", "--", "true",
                             pass_fds=(read_end,))
        os.close(read_end)
        os.close(write_end)
        self.assertEqual(done.returncode, 125)
        self.assertIn("not open for writing", done.stderr)

    def test_a_reader_that_goes_away_does_no_harm(self):
        read_end, write_end = os.pipe()
        os.close(read_end)
        done = self.holdfast("run", "--json-fd", str(write_end), "job", "--", "true",
                             pass_fds=(write_end,))
        os.close(write_end)
        self.assertEqual(done.returncode, 0)

    def test_a_long_event_is_whole_however_slowly_it_is_read(self):
        read_end, write_end = os.pipe()
        fcntl.fcntl(write_end, 1031, 4096)  # F_SETPIPE_SZ
        process = subprocess.Popen(
            [PROGRAM, "run", "--ttl", "600ms", "--reason", "\x01" * 1000, "--json-fd",
             str(write_end), "job", "--", "sleep", "0.7"], env=self.env, pass_fds=(write_end,))
        os.close(write_end)
        self.until(lambda: self.holdfast("inspect", "--json", "job").stdout.count("sleep"), "held")
        time.sleep(0.4)  # It is to find the reader slow.
        with os.fdopen(read_end, "rb") as reader:
            lines = reader.read().splitlines()
        self.assertEqual(process.wait(20), 0)
        self.assertEqual(json.loads(lines[0])["event"], "acquired")
        self.assertEqual(json.loads(lines[-1])["event"], "released")
        self.assertTrue(all(json.loads(line)["reason"] for line in lines))

    def test_a_reader_that_does_not_read_holds_nothing_up(self):
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        try:
            while True:
                os.write(write_end, b"x" * 4096)
        except BlockingIOError:
            pass
        os.set_blocking(write_end, True)
        done = self.holdfast("run", "--ttl", "600ms", "--json-fd", str(write_end), "job", "--",
                             "sleep", "1.5", pass_fds=(write_end,))
        os.close(write_end)
        os.close(read_end)
        self.assertEqual(done.returncode, 0)
        self.assertFalse(json.loads(self.holdfast("inspect", "--json", "job").stdout)["held"])


if __name__ == "__main__":
    harness.main()
