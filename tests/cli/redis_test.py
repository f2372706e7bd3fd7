"""All commands on a Redis store, with a server of each test's own."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "tests/docs"))

import check_console
import redis_server
from harness import NOBODY_LEFT, PATIENCE, PROGRAM, STUBBORN, CliCase, alive, boottime
from redis_server import RedisServer, free_port

SECRET = "s3cret-Pw"
USER = f"user alice on >{SECRET} ~* &* +@all"


class RedisCase(CliCase):
    CONFIG = ()

    def setUp(self):
        super().setUp()
        self.server = RedisServer(self, self.CONFIG)
        self.store = self.server.url()
        self.env["HOLDFAST_STORE"] = self.store

    def ok(self, *arguments, **options):
        done = self.holdfast(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def json_of(self, *arguments, **options):
        return json.loads(self.ok(*arguments, **options).stdout)


class CommandTest(RedisCase):
    def test_the_command_runs_under_the_lock_and_is_told_of_it(self):
        done = self.ok("run", "job", "--", "env")
        env = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        self.assertEqual((env["HOLDFAST_NAME"], env["HOLDFAST_STORE"]), ("job", self.store))
        self.assertRegex(env["HOLDFAST_TOKEN"], r"^\d{10}\.\d{20}$")
        self.assertEqual(self.holdfast("run", "job", "--", "sh", "-c", "exit 7").returncode, 7)
        self.assertFalse(self.inspect()["held"])

    def test_the_url_of_store_is_passed_on_when_it_holds_no_secret(self):
        url = self.server.url("?ns=team")
        done = self.ok("run", "--store", url, "job", "--", "printenv", "HOLDFAST_STORE")
        self.assertEqual(done.stdout.strip(), url)

    def test_acquire_renew_release(self):
        lease = self.ok("acquire", "--ttl", "20s", "job").stdout.strip()
        self.assertEqual(self.holdfast("run", "--no-wait", "job", "--", "true").returncode, 124)
        self.assertGreater(self.json_of("renew", "--json", "--ttl", "50s", lease)["time_left_ms"],
                           40_000)
        self.assertGreater(self.inspect()["time_left_ms"], 40_000)
        self.ok("release", lease)
        self.assertFalse(self.inspect()["held"])
        for command in ("renew", "release"):
            self.assertEqual(self.holdfast(command, lease).returncode, 123)

    def test_bench_gives_its_figures(self):
        figures = self.json_of("bench", "--duration", "1s", "--in-flight", "2", "--json")
        self.assertGreater(figures["pairs_per_s"], 0)
        self.assertGreater(figures["handoff_us"]["p50"], 0)
        self.assertEqual(figures["errors"], 0)

    def test_a_counter_of_other_programs_gives_ids(self):
        done = self.holdfast("id", "next", "orders", "--store", self.store, "--counter")
        self.assertEqual(done.returncode, 125)
        self.assertIn("make it once", done.stderr)
        self.ok("id", "init", "orders", "--store", self.store, "--counter")
        three = self.ok("id", "next", "orders", "--store", self.store, "--counter", "--count", "3")
        self.assertEqual(three.stdout.split(), ["1", "2", "3"])
        self.assertEqual(self.server.ask("INCR", "orders").strip(), ":4")
        durable = self.holdfast("id", "next", "orders", "--store", self.store, "--counter",
                                "--require", "durable")
        self.assertEqual(durable.returncode, 125)
        self.assertIn("fail-over", durable.stderr)

    def test_namespaces_are_apart(self):
        self.holder("job", "--store", self.server.url("?ns=a"))
        self.ok("run", "--no-wait", "--store", self.server.url("?ns=b"), "job", "--", "true")
        self.assertEqual(self.json_of("ls", "--json", "--store", self.server.url("?ns=b")), [])
        listed = self.json_of("ls", "--json", "--store", self.server.url("?ns=a"))
        self.assertEqual([lock["name"] for lock in listed], ["job"])

    def test_a_nested_run_of_the_same_lock_is_refused_however_the_store_is_spelled(self):
        program = os.path.abspath(PROGRAM)
        for url in (self.store, self.server.url("/0"), self.server.url("?db=0&ttl=9s"),
                    self.server.url(host="localhost"), self.store.upper()):
            with self.subTest(url=url):
                done = self.holdfast("run", "job", "--", program, "run", "--wait", "5s", "--store",
                                     url, "job", "--", "true")
                self.assertEqual(done.returncode, 125, done.stderr)
                self.assertIn("deadlock", done.stderr)
        for name, url in (("other", self.store), ("job", self.server.url("/1")),
                          ("job", self.server.url("?ns=x"))):
            done = self.ok("run", "job", "--", program, "run", "--store", url, name, "--", "echo",
                           "in")
            self.assertEqual(done.stdout, "in\n")


class DoctorTest(RedisCase):
    def doctor(self, *arguments):
        return self.holdfast("doctor", *arguments)

    def test_what_is_required_and_kept_is_no_complaint(self):
        done = self.doctor("--require", "fenced,fair")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"(?m)^guarantees: +.*\bfenced\b")
        self.assertRegex(done.stdout, r"(?m)^not guaranteed: .*\bsurvives-failover\b")

    def test_what_is_required_and_not_promised_is_named_with_what_to_change(self):
        for name in ("survives-failover", "survives-restart"):
            done = self.doctor("--require", name, "--json")
            self.assertEqual(done.returncode, 1)
            self.assertEqual(json.loads(done.stdout)["missing"], [name])
            self.assertIn(f"'{name}'", done.stderr)
            self.assertIn("refuse old tokens", done.stderr)

    def test_a_problem_of_the_configuration_fails_what_rests_on_it(self):
        self.assertTrue(self.server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
                        .startswith("+OK"))
        self.assertEqual(self.doctor().returncode, 1)
        quiet = self.doctor("-q")
        self.assertEqual(quiet.returncode, 1)
        self.assertIn("maxmemory-policy", quiet.stdout)
        self.assertNotRegex(quiet.stdout, "(?m)^(ok|warning) |guarantees:")
        done = self.doctor("--require", "fenced,fair", "--json")
        self.assertEqual(done.returncode, 1)
        report = json.loads(done.stdout)
        self.assertEqual((report["healthy"], report["missing"]), (False, ["fenced"]))
        self.assertIn("set maxmemory-policy noeviction", done.stderr)

    def test_elsewhere_than_on_a_terminal_a_finding_is_one_line(self):
        report = json.loads(self.doctor("--json").stdout)
        lines = self.doctor().stdout.splitlines()
        for finding in report["findings"]:
            line = [line for line in lines if finding["topic"] in line and finding["what"] in line]
            self.assertEqual(len(line), 1, finding)
            self.assertTrue(line[0].endswith(finding["advice"]), line)


    def test_a_terminal_gets_lines_of_its_width_and_at_most_100_columns(self):
        for columns in (72, 80, 100, 250):
            text = self.on_terminal(columns, "doctor")
            with self.subTest(columns=columns):
                self.assertLessEqual(max(map(len, text.splitlines())), min(columns, 100), text)
                self.assertIn("-> set appendonly yes", text)

    def on_terminal(self, columns, *arguments):
        pid, fd = pty.fork()
        if pid == 0:
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
            os.execve(PROGRAM, [PROGRAM, *arguments], {**self.env, "NO_COLOR": "1"})
        self.addCleanup(os.close, fd)
        text = b""
        while select.select([fd], [], [], PATIENCE)[0]:
            try:
                text += os.read(fd, 65536)
            except OSError:
                break  # The other end is closed.
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, text)
        return text.decode().replace("\r", "")


class PageTest(RedisCase):
    def test_the_example_of_the_stores_page_says_what_happens(self):
        with open(os.path.join(ROOT, "docs/stores/redis.md"), encoding="utf-8") as file:
            block = file.read().split("```console\n")[1].split("```")[0]
        steps = check_console.steps(block.replace("redis://locks.example:6379", self.store))
        self.assertGreater(len(steps), 5)
        folder = self.path("page")
        os.mkdir(folder)
        env = {**self.env, "PATH": os.path.dirname(os.path.abspath(PROGRAM)) + ":" +
               self.env["PATH"]}
        for (command, expected), printed in zip(
                steps, check_console.run_all([step[0] for step in steps], folder, env)):
            with self.subTest(command=command):
                self.assertTrue(check_console.matches(expected, printed), printed)


class SecretTest(RedisCase):
    """Every way to name a password: it is nowhere but where the user put it."""
    CONFIG = ("user default off", USER)

    def setUp(self):
        super().setUp()
        self.file = self.path("password")
        with open(self.file, "w", encoding="ascii") as file:
            file.write(SECRET + "\n")
        os.chmod(self.file, 0o600)
        del self.env["HOLDFAST_STORE"]

    def ways(self):
        """Name, arguments, environment."""
        plain = self.server.url(user="alice")
        with_secret = self.server.url(user=f"alice:{SECRET}")
        with_option = self.server.url(f"?user=alice&password={SECRET}")
        by_file = self.server.url(f"?password_file={self.file}", user="alice")
        config = self.path("c.toml")
        with open(config, "w", encoding="ascii") as file:
            file.write(f'store = "{with_secret}"\n')
        yield "--store", ["--store", with_secret], {}
        yield "--store=", ["--store=" + with_option], {}
        yield "HOLDFAST_STORE", [], {"HOLDFAST_STORE": with_secret}
        yield "configuration", ["--config", config], {}
        yield "password_file", ["--store", by_file], {}
        yield "variable", ["--store", plain], {"HOLDFAST_REDIS_PASSWORD": SECRET}
        yield "password_env", ["--store", plain + "?password_env=PW"], {"PW": SECRET}

    def test_a_file_that_everybody_can_read_is_warned_of(self):
        url = self.server.url(f"?password_file={self.file}", user="alice")
        for mode, told in ((0o600, 0), (0o640, 0), (0o604, 1)):
            os.chmod(self.file, mode)
            done = self.ok("run", "--store", url, "job", "--", "true")
            self.assertEqual(done.stderr.count("every user of this host can read password_file"),
                             told, done.stderr)

    def test_no_command_shows_it(self):
        for name, arguments, variables in self.ways():
            env = {**self.env, **variables}
            say = []
            def run(*words):
                done = self.holdfast(words[0], *arguments, *words[1:], env=env)
                say.append(done.stdout + done.stderr)
                self.assertEqual(done.returncode, 0, done.stderr)
                return done
            with self.subTest(way=name):
                run("run", "-v", "job", "--", "true")
                run("run", "-v", "--json", "job", "--", "true")
                run("hold", "-v", "job")
                lease = json.loads(run("acquire", "--json", "job").stdout)
                run("ls", "-v")
                run("inspect", "-v", "job")
                run("renew", "-v", lease["lease"])
                run("break", "-v", "job", "--token", lease["token"])
                run("doctor", "-v")
                run("doctor", "--json")
                run("bench", "-v", "--duration", "50ms")
                run("bench", "--json", "--duration", "50ms")
                self.assertNotIn(SECRET, "".join(say))

    def test_no_process_of_a_run_shows_it(self):
        for name, arguments, variables in self.ways():
            with self.subTest(way=name):
                running = self.run_locked(*arguments, "job", "--", "sleep", "60",
                                          env={**self.env, **variables})
                command = running.event("started")["command_pid"]
                running.guard()
                for pid in [running.pid, *running.helpers(), command]:
                    with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
                        self.assertNotIn(SECRET, file.read())
                with open(f"/proc/{command}/environ", encoding="utf-8") as file:
                    env = dict(entry.split("=", 1) for entry in file.read().split("\0") if entry)
                with_secret = {key: value for key, value in env.items() if SECRET in value}
                # What was in the user's environment stays; nothing is added.
                self.assertEqual(with_secret, variables)
                exported = name in ("password_file", "variable", "password_env")
                if not variables.get("HOLDFAST_STORE"):
                    self.assertEqual("HOLDFAST_STORE" in env, exported)
                running.signal(signal.SIGTERM)
                running.status()
                self.assertNotIn(SECRET, running.errors())

    def test_a_command_that_inherits_the_variable_can_use_the_store(self):
        program = os.path.abspath(PROGRAM)
        done = self.ok("run", "--store", self.server.url(user="alice"), "outer", "--", program, "run",
                       "inner", "--", "echo", "in",
                       env={**self.env, "HOLDFAST_REDIS_PASSWORD": SECRET})
        self.assertEqual(done.stdout, "in\n")

    def test_the_descriptor_of_the_password_is_closed_for_the_command(self):
        with open(self.file, "rb") as file:
            fd = file.fileno()
            url = self.server.url(f"?password_fd={fd}", user="alice")
            done = self.holdfast("run", "--store", url, "job", "--", "ls", f"/proc/self/fd/{fd}",
                                 pass_fds=(fd,))
        self.assertNotEqual(done.returncode, 125, done.stderr)
        self.assertIn("No such file", done.stderr)

    def test_bench_says_why_a_descriptor_is_not_enough(self):
        with open(self.file, "rb") as file:
            fd = file.fileno()
            done = self.holdfast("bench", "--store", self.server.url(f"?password_fd={fd}", "alice"),
                                 pass_fds=(fd,))
        self.assertEqual(done.returncode, 125)
        self.assertIn("password_file", done.stderr)

    def test_a_wrong_password_gives_125_and_says_so(self):
        wrong = "wr0ng-Pw"
        bad = self.server.url(user=f"alice:{wrong}")
        for arguments in (["run", "--store", bad, "job", "--", "true"],
                          ["ls", "--store", bad], ["doctor", "--store", bad],
                          ["hold", "--store", bad, "job"], ["acquire", "--store", bad, "job"],
                          ["run", "--json", "--store", bad, "job", "--", "true"]):
            with self.subTest(arguments=arguments):
                begin = time.monotonic()
                done = self.holdfast(*arguments)
                self.assertLess(time.monotonic() - begin, 10)
                self.assertEqual(done.returncode, 125, done.stderr)
                self.assertIn("HOLDFAST_REDIS_PASSWORD", done.stderr)
                self.assertNotIn(wrong, done.stdout + done.stderr)
                self.assertNotIn("permissions", done.stderr)

    def test_no_password_gives_125_and_says_so(self):
        done = self.holdfast("ls", "--store", self.server.url())
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("HOLDFAST_REDIS_PASSWORD", done.stderr)

    def test_a_password_that_was_not_encoded_is_not_shown(self):
        for password in ("s3cret/Pw", "s3cret?Pw", "1/s3cret", "1?s3cret", "s3cret#Pw", "s3cret@Pw",
                         "s3cret%Pw"):
            url = self.server.url(user=f"alice:{password}")
            done = self.holdfast("run", "-v", "--store", url, "job", "--", "true")
            with self.subTest(url=url):
                self.assertEqual(done.returncode, 125, done.stderr)
                self.assertNotIn("s3cret", done.stderr)


class FaultTest(RedisCase):
    def setUp(self):
        super().setUp()
        self.pids_file = self.path("pids")
        self.env["PIDS"] = self.pids_file

    def stubborn(self, ttl):
        running = self.run_locked("--ttl", ttl, "job", "--", "sh", "-c", STUBBORN)
        running.event("started")
        return running, self.read_pids(self.pids_file, 4)

    def test_a_killed_program_leaves_no_process_and_the_next_one_follows_after_the_lease(self):
        running, _ = self.stubborn("2s")
        info = self.inspect()
        successor = self.run_locked("--wait", "20s", "job", "--", "sh", "-c", NOBODY_LEFT)
        successor.event("waiting")
        running.process.kill()
        self.assertEqual(successor.line(), "nobody left")
        self.assertEqual(successor.status(), 0)
        self.assertGreater(successor.event("acquired")["token"], info["token"])

    def test_the_tree_is_gone_before_the_lease_ends_when_the_server_dies(self):
        ttl = 3
        running, pids = self.stubborn(f"{ttl}s")
        killed_at = boottime()
        self.server.kill()
        self.until(lambda: not any(alive(pid) for pid in pids), "the tree has ended")
        self.assertLess(boottime() - killed_at, ttl)
        running.event("lost")
        self.assertEqual(running.status(), 123)
        self.assertIn("lost the lock 'job'", running.errors())

    def test_the_tree_is_gone_before_the_lease_ends_when_the_server_hangs(self):
        ttl = 3
        running, pids = self.stubborn(f"{ttl}s")
        stopped_at = boottime()
        self.server.process.send_signal(signal.SIGSTOP)
        self.until(lambda: not any(alive(pid) for pid in pids), "the tree has ended")
        self.assertLess(boottime() - stopped_at, ttl)
        self.assertEqual(running.status(), 123)

    def test_the_program_ends_with_the_lease_when_the_server_hangs(self):
        ttl = 4
        running, _ = self.stubborn(f"{ttl}s")
        stopped_at = boottime()
        self.server.process.send_signal(signal.SIGSTOP)
        self.assertEqual(running.status(), 123)
        # It waited for an answer to its release for five seconds more.
        self.assertLess(boottime() - stopped_at, ttl + 3)

    def test_a_release_that_is_not_answered_is_told_of_and_ends_with_the_lease(self):
        ttl = 4
        running = self.run_locked("--ttl", f"{ttl}s", "job", "--", "sh", "-c", "read line",
                                  stdin=subprocess.PIPE)
        running.event("renewed")
        renewed_at = boottime()
        self.server.process.send_signal(signal.SIGSTOP)
        running.process.stdin.write(b"\n")
        running.process.stdin.flush()
        self.assertEqual(running.status(), 0)
        self.assertLess(boottime() - renewed_at, ttl + 3)
        said = running.errors()
        self.assertIn("to take 'job' back: until its lease ends", said)
        self.assertIn("so it is free when the lease ends", said)

    def test_who_waits_outlives_a_restart_of_the_server(self):
        holder = self.holder("job")
        waiter = self.run_locked("job", "--", "echo", "mine")
        waiter.event("waiting")
        self.server.restart()
        self.assertEqual(waiter.line(), "mine")
        self.assertEqual(waiter.status(), 0)
        holder.event("lost")  # Its lease is forgotten, as the store's page declares.
        self.assertEqual(holder.status(), 123)
        self.assertEqual(holder.errors().count("lost the lock"), 1)

    def test_a_candidate_that_goes_on_leads_again_after_an_outage(self):
        leader = self.run_locked(
            "--ttl", "3s", "--again", "--value", "me", "boss", "--", "sh", "-c",
            'echo "$HOLDFAST_VALUE $HOLDFAST_TOKEN"; read -r word && exit "$word"',
            verb="elect", stdin=subprocess.PIPE)
        value, first = leader.line().split()
        leader.event("started")
        self.server.kill()
        leader.event("lost")
        self.server.start()
        leader.event("started")
        again, second = leader.line().split()
        self.assertEqual((value, again), ("me", "me"))
        self.assertGreater(second, first)
        leader.process.stdin.write(b"9\n")
        leader.process.stdin.flush()
        self.assertEqual(leader.status(), 9)

    def test_a_wait_ends_in_time_when_the_server_is_away(self):
        self.holder("job", ttl="30s")
        waiter = self.run_locked("--wait", "1500ms", "job", "--", "true")
        waiter.event("waiting")
        begin = time.monotonic()
        self.server.kill()
        self.assertEqual(waiter.status(), 125)
        self.assertLess(time.monotonic() - begin, 10)
        self.assertIn("'holdfast inspect NAME' tells", waiter.errors())

    def test_a_store_that_cannot_be_reached_gives_125_and_advice(self):
        for host, url in (("closed", f"redis://127.0.0.1:{free_port()}"),
                          ("unknown", "redis://no-such-host.invalid"),
                          ("socket", "redis+unix://" + self.path("none.sock"))):
            for arguments in (["run", "--no-wait", "job", "--", "true"], ["hold", "--no-wait", "job"],
                              ["acquire", "--no-wait", "job"], ["ls"], ["inspect", "job"],
                              ["watch"], ["break", "job", "--token", "1"], ["doctor"],
                              ["bench", "--duration", "100ms"]):
                with self.subTest(host=host, arguments=arguments):
                    begin = time.monotonic()
                    done = self.holdfast(arguments[0], "--store", url, *arguments[1:], timeout=30)
                    self.assertEqual(done.returncode, 125, done.stderr)
                    self.assertLess(time.monotonic() - begin, 12)
                    self.assertIn("Is it up and reachable?", done.stderr)
                    self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_a_server_that_hangs_gives_125_within_a_bounded_time(self):
        self.server.process.send_signal(signal.SIGSTOP)
        for arguments in (["run", "--wait", "1s", "job", "--", "true"], ["ls"], ["doctor"]):
            with self.subTest(arguments=arguments):
                begin = time.monotonic()
                done = self.holdfast(*arguments, timeout=30)
                self.assertEqual(done.returncode, 125, done.stderr)
                self.assertLess(time.monotonic() - begin, 15)
                self.assertIn("Is it up and reachable?", done.stderr)


if __name__ == "__main__":
    redis_server.main()
