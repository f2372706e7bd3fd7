"""The commands on any store: the same words, the same output, the same exit codes.

HOLDFAST_TEST_STORE says on which. SQLite and Redis are here so that the expectations are one; what
only they can do, or only they can suffer, is tested beside this.
"""

import getpass
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest
import urllib.request

import harness
import redis_server
from harness import NOBODY_LEFT, PATIENCE, PROGRAM, STUBBORN, CliCase, alive, boottime
from redis_server import free_port

STORE = os.environ.get("HOLDFAST_TEST_STORE", "sqlite")
KIND = os.environ.get("HOLDFAST_TEST_SERVER", STORE)  # Of the store's servers, where there are several.
BOUND = STORE in ("zookeeper", "etcd", "consul")  # Locks live by their clients' sessions.
RECIPE = {"zookeeper": "curator", "etcd": "etcd", "consul": "consul"}.get(STORE)
SERVED = BOUND or STORE in ("postgres", "mysql", "memcached", "holdfast")  # One server for all cases.
LISTS = STORE != "memcached"
FORGETS = BOUND or STORE == "memcached"  # Of a free lock nothing is kept.
# A holder that is killed, and whoever cannot reach the store, lose the lock after so long. Consul
# ends a session one to two of its lengths after its last renewal. The shortest that there is, which
# a machine that is busy with other cases may miss.
SHORTEST = {"zookeeper": "1200ms", "etcd": "2s", "consul": "2s"}.get(STORE)
# One that is awaited, and yet not missed.
SHORT = "4s" if BOUND else "2s"
SHIM = harness.CLOCK_SHIM
TOKEN = r"\d{10}\.\d{20}"
LOOK = {"name", "held", "token", "mode", "owner", "host", "pid", "program", "since", "reason",
        "trace_id", "time_left_ms", "last_token", "holders", "waiters", "last_break"}


class Server:
    """One server for all cases, which only who logs in may use (memcached, holdfast: everybody)."""

    def __init__(self):
        self.process = subprocess.Popen(
            [os.environ.get("HOLDFAST_STORE_SERVER", "build/dev/tests/cli_store_server"), KIND],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        line = self.process.stdout.readline()
        if self.process.poll() == 77 or not line.startswith("{"):
            self.stop()
            print(f"SKIPPED: no {KIND}: {line.strip()}: nothing of the program was tested on it")
            sys.exit(77 if self.process.returncode == 77 else 1)
        self.facts = json.loads(line)

    def url(self, options="", who=None, place=None, session=SHORTEST):
        """Without a session: the one that is set by default."""
        who = self.facts["user"] if who is None else who
        words = f"session={session}{options}" if BOUND and session else options.removeprefix("&")
        return f"{STORE}://{who}{place or self.facts['place']}?{words}"

    def signal(self, number):
        pid = self.facts["pid"]
        if STORE == "postgres":  # Each connection has a process.
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
                for child in children.read().split():
                    os.kill(int(child), number)
        os.kill(pid, number)

    def kill(self):
        self.process.stdin.write("kill\n")
        self.process.stdout.readline()

    def start(self):
        """With the data it had; returns when it serves."""
        self.process.stdin.write("start\n")
        self.facts["pid"] = int(self.process.stdout.readline())

    def stop(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


SERVER = None


class StoreCase(CliCase):
    cases = 0
    session = "10s"  # Nobody is to lose it who is not made to.

    def setUp(self):
        super().setUp()
        StoreCase.cases += 1
        if STORE == "redis":
            self.redis = redis_server.RedisServer(self)
            self.store = self.redis.url()
        elif SERVED:
            self.store = SERVER.url(f"&ns=case{self.cases}", session=self.session)
            if SERVER.facts["secret"]:
                variable = "TOKEN" if STORE == "consul" else "PASSWORD"
                self.env[f"HOLDFAST_{STORE.upper()}_{variable}"] = SERVER.facts["secret"]
        self.env["HOLDFAST_STORE"] = self.store

    def ok(self, *arguments, **options):
        done = self.holdfast(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def json_of(self, *arguments):
        return json.loads(self.ok(*arguments).stdout)

    def refused(self, *arguments, **options):
        """Fails with one line that says where and what next; the line."""
        done = self.holdfast(*arguments, **options)
        return self.refusal(done, arguments)

    def refusal(self, done, arguments):
        self.assertEqual((done.returncode, done.stdout), (125, ""), (arguments, done.stderr))
        lines = done.stderr.splitlines(keepends=True)
        # A command that waits for its store has told why.
        if "--wait" in arguments and "waiting for the store to be back" in lines[0]:
            del lines[0]
        self.assertEqual(len(lines), 1, (arguments, done.stderr))
        self.assertTrue(lines[0].startswith("holdfast: "), done.stderr)
        return lines[0]

    def ask_consul(self, method, target, body=""):
        """What another client of it does."""
        request = urllib.request.Request(
            f"http://{SERVER.facts['place']}{target}", method=method, data=body.encode(),
            headers={"X-Consul-Token": SERVER.facts["secret"]})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.read().decode()

    def all_at_once(self, commands, **variables):
        """Each command, and how it ended and after how long."""
        begin = time.monotonic()
        started = [(words, subprocess.Popen(
            [PROGRAM, *words], env={**self.env, **variables}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)) for words in commands]
        for words, process in started:
            out, err = process.communicate(timeout=PATIENCE)
            yield words, subprocess.CompletedProcess(words, process.returncode, out, err)
        self.assertLess(time.monotonic() - begin, 30)

    def lines_of(self, *arguments):
        """A command that goes on; its lines can be awaited."""
        process = subprocess.Popen([PROGRAM, *arguments], env=self.env, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        return process

    def next_line(self, process, within=PATIENCE):
        if not select.select([process.stdout], [], [], within)[0]:
            return None
        return process.stdout.readline().decode().rstrip("\n")


class RunTest(StoreCase):
    def test_the_command_runs_under_the_lock_and_is_told_of_it(self):
        done = self.ok("run", "job", "--", "env")
        env = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        self.assertEqual((env["HOLDFAST_NAME"], env["HOLDFAST_STORE"], env["HOLDFAST_MODE"]),
                         ("job", self.store, "exclusive"))
        self.assertRegex(env["HOLDFAST_TOKEN"], f"^{TOKEN}$")
        self.assertEqual(self.ok("run", "job", "--", "cat", stdin="in").stdout, "in")
        self.assertFalse(self.inspect()["held"])

    def test_the_exit_status_is_the_commands(self):
        for command, status in ((["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -TERM $$"], 143),
                                (["/etc"], 126), (["/no/such/program"], 127)):
            self.assertEqual(self.holdfast("run", "job", "--", *command).returncode, status)

    def test_two_programs_contend_and_the_second_follows_the_first(self):
        first = self.run_locked("job", "--", "sh", "-c", "read line; true", stdin=subprocess.PIPE)
        first.event("started")
        for limit in (["--no-wait"], ["--wait", "100ms"]):
            done = self.holdfast("run", *limit, "job", "--", "true")
            self.assertEqual(done.returncode, 124, done.stderr)
            self.assertIn("'job'", done.stderr)
        second = self.run_locked("job", "--", "true")
        waiting = second.event("waiting")
        self.assertEqual([who["pid"] for who in waiting["holders"]], [first.pid])
        token = self.inspect()["token"]
        first.process.stdin.close()
        self.assertEqual(first.status(), 0)
        self.assertGreater(second.event("acquired")["token"], token)
        self.assertEqual(second.status(), 0)

    def test_a_signal_ends_a_wait_and_leaves_the_queue(self):
        self.holder("job")
        waiter = self.run_locked("job", "--", "true")
        waiter.event("waiting")
        self.until(lambda: self.inspect()["waiters"], "it waits")
        waiter.signal(signal.SIGTERM)
        self.assertEqual(waiter.status(), 143)
        self.until(lambda: not self.inspect()["waiters"], "it has left the queue")

    def test_a_nested_run_of_the_same_lock_is_refused(self):
        program = os.path.abspath(PROGRAM)
        done = self.holdfast("run", "job", "--", program, "run", "job", "--", "true")
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("deadlock", done.stderr)

    def test_shared_holders_and_permits_hold_together(self):
        for mode, other in ((["--shared"], []), (["--permits", "1/2"], ["--permits", "2/2"])):
            name = mode[0].strip("-")
            holder = self.holder(name, *mode)
            self.ok("run", "--no-wait", *mode, name, "--", "true")
            done = self.holdfast("run", "--no-wait", *other, name, "--", "true")
            self.assertEqual(done.returncode, 124, done.stderr)
            holder.signal(signal.SIGTERM)
            self.assertEqual(holder.status(), 143)

    def test_hold_holds_until_its_input_ends(self):
        holder = self.lines_of("hold", "job")
        self.assertRegex(self.next_line(holder), f"^held job token {TOKEN}$")
        self.assertEqual(self.inspect()["pid"], holder.pid)
        holder.stdin.close()
        self.assertEqual(holder.wait(PATIENCE), 0)
        self.assertFalse(self.inspect()["held"])

    def test_a_lease_without_its_process_is_had_or_refused_with_what_to_use(self):
        if RECIPE:
            env = {**self.env, "HOLDFAST_STORE": f"{self.store}&recipe={RECIPE}"}
            self.assertRegex(self.refused("acquire", "foreign", env=env), "'holdfast (hold|run)'")
        lease = self.ok("acquire", "--ttl", "20s", "job").stdout.strip()
        self.assertTrue(self.inspect()["held"])
        self.assertEqual(self.holdfast("run", "--no-wait", "job", "--", "true").returncode, 124)
        self.ok("renew", lease)
        self.ok("release", lease)
        self.assertEqual(self.holdfast("release", lease).returncode, 123)

    def test_min_hold_keeps_the_lock_after_the_command_or_is_refused(self):
        if RECIPE:
            env = {**self.env, "HOLDFAST_STORE": f"{self.store}&recipe={RECIPE}"}
            ran = self.path("ran")
            line = self.refused("run", "--min-hold", "500ms", "foreign", "--", "touch", ran, env=env)
            self.assertIn("none can be kept for --min-hold", line)
            self.assertFalse(os.path.exists(ran))
            self.ok("run", "--min-hold", "0s", "job", "--", "touch", ran)
            told = self.run_locked("--min-hold", "500ms", "--exit-error", "78", "foreign", "--", "true",
                                   env=env)
            self.assertEqual(told.event("error")["code"], "kUnsupported")
            self.assertEqual(told.status(), 78)
        if BOUND:  # Consul ends a lease up to twice as late, and none is shorter than a session.
            self.env["HOLDFAST_STORE"] = self.store.replace(f"session={self.session}",
                                                            f"session={SHORTEST}")
        begin = boottime()
        self.assertIn("stays held until", self.ok("run", "--min-hold", "500ms", "job", "--", "true").stderr)
        self.ok("run", "--wait", "50s", "job", "--", "true", timeout=PATIENCE)
        self.assertGreater(boottime() - begin, 0.5)


class LookTest(StoreCase):
    def test_looking_tells_who_holds_and_who_waits(self):
        holder = self.holder("job", "--reason", "nightly")
        waiter = self.run_locked("job", "--", "true")
        waiter.event("waiting")
        self.until(lambda: self.inspect()["waiters"], "it waits")
        info = self.inspect()
        self.assertEqual(set(info) - LOOK, set())
        self.assertEqual((info["pid"], info["reason"], info["host"], info["mode"], info["program"]),
                         (holder.pid, "nightly", socket.gethostname(), "exclusive",
                          f"{getpass.getuser()}: holdfast run sleep"))
        self.assertRegex(info["token"], f"^{TOKEN}$")
        self.assertEqual([one["pid"] for one in info["waiters"]], [waiter.pid])
        self.assertTrue(0 < info["time_left_ms"] <= 10_000, info)
        text = self.ok("inspect", "job").stdout
        self.assertRegex(text, f"^job: held, last token {TOKEN}\n")
        self.assertIn("waiter 1", text)
        if not LISTS:
            for words in (["ls"], ["top", "--once"], ["watch"]):
                self.assertIn("holdfast inspect", self.refused(*words))
            return
        self.assertEqual([one["name"] for one in self.json_of("ls", "--json", "jo")], ["job"])
        text = self.ok("ls").stdout.splitlines()
        self.assertEqual(text[0].split(), ["NAME", "MODE", "HOLDER", "HOST", "PID", "SINCE", "LEFT",
                                           "WAITING", "REASON"])
        self.assertEqual([text[1].split()[i] for i in (0, 1, 5, 7, 10, 11)],
                         ["job", "exclusive", "sleep", str(holder.pid), "1", "nightly"])
        top = self.ok("top", "--once").stdout.splitlines()
        self.assertIn("locks 1, holders 1, waiters 1", top[0])
        token = re.escape(info["token"])
        self.assertRegex(top[2], rf"^job +holds +exclusive .* 1 +{token} +nightly$")
        self.assertRegex(top[3], r"^job +waits 1 +exclusive")

    def test_what_another_program_does_not_tell_of_itself_is_not_made_up(self):
        if STORE != "consul":
            self.skipTest(f"{STORE} is tested with the programs that share its locks")
        session = json.loads(self.ask_consul("PUT", "/v1/session/create",
                                             '{"TTL": "15s", "Name": "by hand"}'))["ID"]
        self.addCleanup(self.ask_consul, "PUT", f"/v1/session/destroy/{session}")
        self.assertEqual(self.ask_consul(
            "PUT", f"/v1/kv/holdfast/team/job/.lock?acquire={session}"), "true")
        self.env["HOLDFAST_STORE"] = SERVER.url(
            "&recipe=consul", place=SERVER.facts["place"] + "/holdfast/team")
        info = self.inspect()
        self.assertEqual(set(info) - LOOK, set())
        self.assertEqual((info["held"], info["owner"], info["program"], info["reason"]),
                         (True, f"session {session}", "consul lock", "by hand"))
        self.assertEqual((info["since"], info["pid"], info["time_left_ms"]), (None, None, 15000))
        self.assertTrue(info["host"], info)
        text = self.ok("inspect", "job").stdout
        self.assertRegex(text, rf"holder +consul lock +{info['host']} +- +exclusive +- +15s ")
        self.assertNotIn("1970", text)
        self.ok("break", "job", "--token", info["token"], "--reason", "fire")
        info = self.inspect()
        self.assertEqual((info["held"], info["last_break"]["reason"]), (False, "fire"))

    def test_a_key_of_no_known_lock_is_named_by_ls_and_doctor(self):
        if STORE != "consul":
            self.skipTest(f"{STORE} is tested by its faults")
        self.holder("job")
        target = f"/v1/kv/holdfast/l/case{self.cases}%252Fa%20b/c/x"
        self.ask_consul("PUT", target, "what another version writes")
        self.addCleanup(self.ask_consul, "DELETE", target)
        named = rf"'holdfast/l/case{self.cases}%2Fa b/' is of no lock that this version knows"
        done = self.holdfast("ls", "--json")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual([one["name"] for one in json.loads(done.stdout)], ["job"])
        self.assertRegex(done.stderr, named)
        self.assertIn("the list is incomplete", done.stderr)
        report = self.json_of("doctor", "--json")
        self.assertEqual([one["severity"] for one in report["findings"] if one["topic"] == "keys"],
                         ["warning"])
        self.assertRegex(self.ok("doctor").stdout, "of no lock that this version knows")
        # In a lock's own folder.
        self.ask_consul("DELETE", target)
        target = f"/v1/kv/holdfast/l/case{self.cases}%252Fjob/later"
        self.ask_consul("PUT", target, "what another version writes")
        self.addCleanup(self.ask_consul, "DELETE", target)
        self.assertEqual(self.holdfast("ls").returncode, 1)
        self.assertRegex(self.ok("doctor").stdout, rf"'holdfast/l/case{self.cases}%2Fjob/later' is of no lock")

    def test_a_lock_that_cannot_be_read_is_named_and_the_others_are_shown(self):
        if STORE != "consul":
            self.skipTest(f"{STORE} is tested by its faults")
        holder = self.holder("job")
        target = f"/v1/kv/holdfast/l/case{self.cases}%252Flater/record"
        self.ask_consul("PUT", target, "hf2 something=new")
        self.addCleanup(self.ask_consul, "DELETE", target)
        named = (rf"lock 'case{self.cases}/later': a lock's record is of format hf2, .*: upgrade "
                 rf"\(key 'holdfast/l/case{self.cases}%2Flater/record'\)")
        for words in (["ls", "--json"], ["ls", "--json", "-q"]):
            done = self.holdfast(*words)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual([one["name"] for one in json.loads(done.stdout)], ["job"])
            self.assertRegex(done.stderr, named)
        top = self.ok("top", "--once", "--json")
        self.assertEqual([one["name"] for one in json.loads(top.stdout)["locks"]], ["job"])
        self.assertRegex(top.stderr, named)
        watch = self.lines_of("watch", "--json", "--count", "1")
        # It tells what happens once it has looked for the first time.
        while not (line := self.next_line(watch, 3)):
            holder.signal(signal.SIGTERM)
            holder.status()
            holder = self.holder("job")
        self.assertEqual(json.loads(line)["name"], "job")
        self.assertRegex(self.refused("inspect", "later"), named)

    def test_a_waiter_that_cannot_be_read_is_shown_as_far_as_its_key_tells(self):
        if STORE != "consul":
            self.skipTest(f"{STORE} is tested by its faults")
        holder = self.holder("job")
        session = json.loads(self.ask_consul("PUT", "/v1/session/create", "{}"))["ID"]
        self.addCleanup(self.ask_consul, "PUT", f"/v1/session/destroy/{session}")
        key = f"holdfast/l/case{self.cases}%2Fjob/c/{'7' * 32}-s"
        self.assertEqual("true", self.ask_consul(
            "PUT", f"/v1/kv/{key.replace('%', '%25')}?acquire={session}", "hf2 something=new"))
        named = rf"'case{self.cases}/job': a contender's .* hf2, .*: upgrade \(key '{key}'\): it keeps"
        done = self.ok("inspect", "--json", "job")
        self.assertRegex(done.stderr, named)
        info = json.loads(done.stdout)
        self.assertEqual((info["pid"], info["waiters"][0]["mode"]), (holder.pid, "shared"))
        self.assertEqual({info["waiters"][0][one] for one in ("token", "owner", "since", "pid",
                                                              "time_left_ms")}, {None})
        self.assertRegex(self.ok("inspect", "job").stdout, r"(?m)^waiter 1 +- +- +- +shared +-")
        done = self.holdfast("ls")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stderr, named)
        self.assertRegex(done.stdout, rf"job +exclusive .* {holder.pid} .* 1")
        self.assertRegex(self.ok("break", "job", "--token", info["token"]).stderr, named)
        holder.event("lost")
        info = self.inspect()
        self.assertEqual((info["held"], info["token"], info["mode"]), (True, None, "shared"))
        self.assertRegex(self.ok("inspect", "job").stdout, r"(?m)^holder +- +- +- +shared +- +- +-$")
        kept_out = self.holdfast("run", "--no-wait", "job", "--", "true")
        self.assertEqual(kept_out.returncode, 124, kept_out.stderr)
        self.assertRegex(kept_out.stderr, named)
        refused = self.refused("break", "job", "--token", "1")
        self.assertRegex(refused, rf"nothing was changed: .*hf2.*\(key '{key}'\)")

    def test_looking_at_nothing(self):
        if LISTS:
            self.assertIn("nobody holds a lock", self.ok("ls", "other").stderr)
            self.assertEqual(self.json_of("ls", "--json"), [])
        self.assertEqual((self.inspect()["held"], self.inspect()["waiters"]), (False, []))
        untold = "job: free; the store keeps no record of its last holder\n"
        self.assertEqual(self.ok("inspect", "job").stdout,
                         untold if FORGETS else "job: free, never held\n")
        self.ok("run", "job", "--", "true")
        text = self.ok("inspect", "job").stdout
        if FORGETS:
            self.assertEqual((text, self.inspect()["last_token"]), (untold, None))
        else:
            self.assertRegex(text, f"^job: free, last token {TOKEN}\n$")

    def test_odd_names_are_shown_as_they_are(self):
        name = "a b/ü%2F'\"*[{}]#?"
        self.holder(name)
        if LISTS:
            self.assertEqual([one["name"] for one in self.json_of("ls", "--json", "a b/")], [name])
        self.assertEqual(self.inspect(name)["name"], name)

    def test_watch_tells_what_happens(self):
        if not LISTS:
            self.skipTest(f"{STORE} cannot list its locks")
        watch = self.lines_of("watch", "--json", "jo")
        # What is there when it begins to look has not happened: nothing to await. What earlier
        # holders did may be told late.
        granted = None
        for _ in range(100):
            holder = self.holder("job")
            while line := self.next_line(watch, 3):
                granted = json.loads(line)
                if (granted["event"], granted["pid"]) == ("granted", holder.pid):
                    break
            if line:
                break
            holder.signal(signal.SIGTERM)
            holder.status()
        self.assertEqual((granted["event"], granted["name"], granted["pid"], granted["token"]),
                         ("granted", "job", holder.pid, self.inspect()["token"]))
        holder.signal(signal.SIGTERM)
        released = json.loads(self.next_line(watch))
        self.assertEqual((released["event"], released["token"]), ("released", granted["token"]))
        watch.send_signal(signal.SIGTERM)
        self.assertEqual(watch.wait(PATIENCE), 0)

    def test_break_frees_the_lock_and_ends_the_holder(self):
        holder = self.holder("job")
        done = self.holdfast("break", "job", "--token", "1")
        self.assertEqual(done.returncode, 123, done.stderr)
        token = self.inspect()["token"]
        # ZooKeeper's servers remove a folder without contenders, once a minute: it has one.
        follower = self.run_locked("job", "--", "sleep", "60")
        follower.event("waiting")
        self.ok("break", "job", "--token", token, "--reason", "fire")
        follower.event("started")
        trace = self.inspect()["last_break"]
        self.assertEqual((trace["reason"], trace["token"]), ("fire", token))
        self.assertIn("last broken: token " + token, self.ok("inspect", "job").stdout)
        follower.signal(signal.SIGTERM)
        follower.status()
        # Somebody else may have held it since.
        self.ok("run", "job", "--", "true")
        last = self.inspect()["last_token"]
        self.assertTrue(last is None if BOUND else last > token, last)
        trace = self.inspect()["last_break"]
        if STORE != "zookeeper" or trace:  # Its servers look for empty folders once a minute.
            self.assertEqual(trace["token"], token)
        holder.event("lost")
        self.assertEqual(holder.status(), 123)
        self.assert_told_once(holder.errors(), "fire")

    def assert_told_once(self, said, why=""):
        """One sentence about the loss, with lock and store, neither of them twice."""
        lines = [line for line in said.splitlines() if "lost the lock" in line]
        self.assertEqual(len(lines), 1, said)
        self.assertIn(why, lines[0])
        place = self.store.split("?")[0]
        counts = [lines[0].count(text) for text in ("job'", place.rsplit("@")[-1].split("://")[-1])]
        self.assertEqual(counts, [1, 1], lines[0])

    def test_a_loss_that_hold_tells_names_lock_and_store_once(self):
        with subprocess.Popen([PROGRAM, "hold", "job"], env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as holder:
            token = holder.stdout.readline().split()[-1]
            self.ok("break", "job", "--token", token, "--reason", "fire")
            said = holder.communicate(timeout=PATIENCE)[1]
        self.assertEqual(holder.returncode, 123, said)
        self.assert_told_once(said)  # It may learn of the break at its release only.

    def test_elect_runs_what_leads_and_shows_what_it_proclaims(self):
        first = self.run_locked("--value", "one", "boss", "--", "sleep", "60", verb="elect")
        first.event("started")
        self.assertEqual(self.holdfast("elect", "--no-wait", "boss", "--", "true").returncode, 124)
        self.until(lambda: self.inspect("boss").get("value") == "one", "it proclaims")
        seen = self.json_of("elect", "--observe", "--count", "1", "--json", "boss")
        self.assertEqual((seen["event"], seen["value"], seen["token"]),
                         ("leads", "one", self.inspect("boss")["token"]))
        second = self.run_locked("--value", "two", "boss", "--", "sh", "-c",
                                 'echo "$HOLDFAST_VALUE"; exit 7', verb="elect")
        second.event("waiting")
        first.signal(signal.SIGTERM)
        self.assertEqual(second.line(), "two")
        self.assertEqual((first.status(), second.status()), (143, 7))

    def test_doctor_says_what_is_promised(self):
        fenced = STORE != "memcached"
        done = self.holdfast("doctor", "--require", "fenced,fair")
        self.assertEqual(done.returncode, 0 if fenced else 1, done.stderr)
        self.assertIn("" if fenced else "'fenced'", done.stderr)
        done = self.ok("doctor", "--require", "fair,shared")
        self.assertEqual(done.stderr, "")
        self.assertRegex(done.stdout, rf"^store {STORE}:.* \({STORE}, for .*\)\n")
        given = "fenced fair" if fenced else "fair"
        self.assertRegex(done.stdout, rf"(?m)^guarantees: +{given} shared permits ")
        self.assertTrue(done.stdout.endswith("\nhealthy\n"), done.stdout)
        report = self.json_of("doctor", "--json")
        self.assertEqual((report["healthy"], report["missing"]), (True, []))
        promises = report["guarantees"]
        self.assertEqual(promises["bound_to_client"], BOUND)
        self.assertFalse(promises["ends_with_client"])
        # One server has no other to fail over to. On a shared journal there may be others.
        self.assertEqual(promises["survives_failover"], KIND == "holdfast-etcd")
        self.assertEqual(promises["survives_restart"], STORE not in ("redis", "memcached"))
        for finding in report["findings"]:
            # SQLite's first user raises the floor of tokens each time; a server's uptime grows, and
            # others use the disk.
            if finding["topic"] not in ("tokens", "uptime", "disk space", "quota"):
                self.assertIn(finding["what"], done.stdout)
        missing = "watch-every-change"
        done = self.holdfast("doctor", "--json", "--require", missing)
        if promises["watch_every_change"]:
            return self.assertEqual(done.returncode, 0)
        self.assertEqual((done.returncode, json.loads(done.stdout)["missing"]), (1, [missing]))
        return self.assertIn(f"'{missing}'", done.stderr)

    def test_bench_gives_its_figures(self):
        figures = self.json_of("bench", "--duration", "1s", "--in-flight", "2", "--json")
        self.assertGreater(figures["pairs_per_s"], 0)
        self.assertGreater(figures["handoff_us"]["p50"], 0)
        self.assertEqual(figures["errors"], 0)


class FaultTest(StoreCase):
    session = SHORT

    def setUp(self):
        super().setUp()
        self.env["PIDS"] = self.path("pids")

    def stubborn(self):
        running = self.run_locked("--ttl", SHORT, "job", "--", "sh", "-c", STUBBORN)
        running.event("started")
        return running, self.read_pids(self.path("pids"), 4)

    def test_a_killed_program_leaves_no_process_and_the_next_one_follows(self):
        running, _ = self.stubborn()
        token = self.inspect()["token"]
        successor = self.run_locked("--wait", "60s", "job", "--", "sh", "-c", NOBODY_LEFT)
        successor.event("waiting")
        running.process.kill()
        self.assertEqual(successor.line(), "nobody left")
        self.assertEqual(successor.status(), 0)
        self.assertGreater(successor.event("acquired")["token"], token)


    def test_ten_waiters_go_on_when_the_holder_and_two_of_them_are_killed(self):
        running, _ = self.stubborn()
        waiters = [self.run_locked("job", "--", "true") for _ in range(10)]
        for waiter in waiters:
            waiter.event("waiting")
        self.until(lambda: len(self.inspect()["waiters"]) == 10, "all stand in the queue")
        first = self.inspect()["waiters"][0]["pid"]
        dead = [waiter for waiter in waiters if waiter.pid == first] + waiters[-1:]
        for one in [running, *dead]:
            one.process.kill()
        for waiter in waiters:
            if waiter not in dead:
                self.assertEqual(waiter.status(), 0)
        self.until(lambda: not self.inspect()["waiters"], "the dead have gone from the queue")

    def test_who_was_stopped_for_too_long_gives_back_nobody_elses_lock(self):
        late = self.lines_of("hold", "--ttl", SHORT, "job")
        token = self.next_line(late).split()[-1]
        late.send_signal(signal.SIGSTOP)
        self.addCleanup(late.send_signal, signal.SIGCONT)
        successor = self.run_locked("--wait", "60s", "--ttl", "10s", "job", "--", "sleep", "60")
        self.assertGreater(successor.event("acquired")["token"], token)
        late.stdin.close()  # It is to release as soon as it can.
        late.send_signal(signal.SIGCONT)
        self.assertEqual(late.wait(PATIENCE), 123)
        self.assertEqual((self.inspect()["pid"], successor.process.poll()), (successor.pid, None))

    def test_what_is_set_by_default_keeps_a_lock_for_as_long_as_the_command_runs(self):
        ttl = ["--ttl", "6s"]  # Where it is the lease, and 30 s by default.
        if BOUND:
            self.env["HOLDFAST_STORE"] = SERVER.url(f"&ns=case{self.cases}", session=None)
            ttl = []
        promised = self.json_of("doctor", "--json")["guarantees"]
        least = promised["least_renewal_ms"] or 6000
        runs = [self.run_locked(*words, name, "--", "sleep", "120")
                for name, words in (("job", ttl), ("longer", ["--ttl", "10m"] if BOUND else ttl))]
        for running in runs:
            for _ in range(5):
                # What the guard needs to end a command is less than half of that.
                self.assertGreater(running.event("renewed")["time_left_ms"], least // 2)
            self.assertIsNone(running.process.poll())
            running.signal(signal.SIGTERM)
        self.assertEqual([running.status() for running in runs], [143, 143])

    def test_a_wall_clock_that_jumps_costs_no_lock(self):
        if not os.path.exists(SHIM):
            self.skipTest("needs the shim of the clock (target test_clock_shim)")
        clock = self.path("clock")
        with open(clock, "wb") as file:
            file.write(struct.pack("q", 0))
        # Nobody is to lose it: long enough for a machine that is busy with other cases.
        patient = self.store.replace(f"session={SHORT}", "session=5s")
        env = {**self.env, "HOLDFAST_STORE": patient, "LD_PRELOAD": os.path.abspath(SHIM),
               "HOLDFAST_TEST_CLOCK_FILE": clock}
        holder = self.run_locked("--ttl", "5s", "job", "--", "sleep", "60", env=env)
        holder.event("started")
        waiter = self.run_locked("job", "--", "true", env=env)
        waiter.event("waiting")
        for hours in (24, -24, 0):
            with open(clock, "r+b") as file:
                file.write(struct.pack("q", hours * 3600 * 10**9))
            for _ in range(3):
                holder.event("renewed")
        self.assertEqual((holder.process.poll(), waiter.process.poll()), (None, None))
        holder.signal(signal.SIGTERM)
        self.assertEqual((holder.status(), waiter.status()), (143, 0))


EVERY_COMMAND = (["run", "--wait", "3s", "job", "--", "true"],
                 ["run", "--no-wait", "job", "--", "true"],
                 ["elect", "--no-wait", "job", "--", "true"], ["hold", "--no-wait", "job"],
                 ["ls"], ["inspect", "job"],
                 ["watch"], ["top", "--once"], ["break", "job", "--token", "1"], ["doctor"],
                 ["bench", "--duration", "100ms"])

if STORE != "sqlite":
    class AwayWhileWaitingTest(StoreCase):
        session = SHORT

        """Nobody takes a server that is away for a lock that others hold: 125, not 124."""

        WAITS = (["run", "--wait", "3s", "job", "--", "true"],
                 ["run", "--no-wait", "job", "--", "true"], ["hold", "--wait", "3s", "job"],
                 ["elect", "--wait", "3s", "job", "--", "true"])

        def all_are_refused(self, place):
            url = SERVER.url(place=place) if SERVED else f"redis://{place}"
            for words, done in self.all_at_once(self.WAITS, HOLDFAST_STORE=url):
                with self.subTest(words=words):
                    line = self.refusal(done, words)
                    self.assertIn(place, line)
                    self.assertIn("Is it up and reachable?", line)

        def server(self):
            return SERVER if SERVED else self.redis

        def signal_server(self, number):
            if SERVED:
                SERVER.signal(number)
            else:
                self.redis.process.send_signal(number)

        def said_until(self, running, pattern):
            """What it says on stderr until that comes."""
            text = ""
            until = time.monotonic() + PATIENCE
            while not re.search(pattern, text):
                left = max(0, until - time.monotonic())
                ready = select.select([running.process.stderr], [], [], left)[0]
                more = os.read(running.process.stderr.fileno(), 65536) if ready else b""
                if not more:
                    self.fail(f"it says: {text}")
                text += more.decode()
            return text

        def test_a_waiter_outlasts_a_server_that_is_away_and_says_so(self):
            self.env["HOLDFAST_STORE"] = self.store + ("&" if SERVED else "?") + "request_timeout=2s"
            holder = self.holder("job", ttl=SHORT)
            # It may have the lock before the last of its connections is made anew.
            loud = self.run_locked("job", "--", "sh", "-c", "read line; true",
                                   stdin=subprocess.PIPE)
            quiet = self.run_locked("-q", "job", "--", "true")
            for waiter in (loud, quiet):
                waiter.event("waiting")
            self.server().kill()
            try:
                # Longer than the session, and then than a request.
                self.assertEqual(holder.status(), 123)
                for _ in range(2):
                    self.refused("run", "--no-wait", "other", "--", "true")
                self.assertEqual((loud.process.poll(), quiet.process.poll()), (None, None))
            finally:
                self.server().start()
            said = self.said_until(loud, r"\n.*(the store is available|connected) again\n")
            self.assertEqual(said.lower().count("waiters keep waiting"), 1, said)
            loud.process.stdin.close()
            self.assertEqual((loud.status(), quiet.status()), (0, 0),
                             (loud.events, quiet.events, quiet.errors()))
            self.assertEqual(quiet.errors(), "")

        def test_a_command_that_ended_within_its_lease_ran_under_the_lock(self):
            running = self.run_locked("--ttl", SHORT, "job", "--", "sh", "-c", "read line; exit 7",
                                      stdin=subprocess.PIPE)
            running.event("started")
            self.server().kill()
            try:
                running.process.stdin.close()
                self.assertEqual(running.event("exited")["status"], 7)
                self.assertEqual(running.status(), 7)
                self.assertIn("could not tell the store that 'job' is free", running.errors())
            finally:
                self.server().start()

        def assert_over_soon(self, running, begin, wait):
            """With 125, and no later than the program's page says."""
            running.event("error")
            told = boottime()
            self.assertEqual(running.status(), 125)
            self.assertLess(told - begin, wait + 2 + 1.5)
            self.assertLess(boottime() - told, 1)

        def test_a_wait_that_is_over_ends_though_the_server_hangs(self):
            self.holder("job")
            begin = boottime()
            waiter = self.run_locked("--wait", "2s", "job", "--", "true")
            waiter.event("waiting")
            self.signal_server(signal.SIGSTOP)
            try:
                self.assert_over_soon(waiter, begin, 2)
            finally:
                self.signal_server(signal.SIGCONT)

        def test_who_opens_a_store_that_says_nothing_waits_no_longer_than_asked(self):
            with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
                place = f"127.0.0.1:{silent.getsockname()[1]}"
                url = SERVER.url(place=place) if SERVED else f"redis://{place}"
                env = {**self.env, "HOLDFAST_STORE": url}
                waiter = self.run_locked("--wait", "2s", "job", "--", "true", env=env)
                self.assert_over_soon(waiter, boottime(), 0)

        def test_nobody_listens_there(self):
            self.all_are_refused(f"127.0.0.1:{free_port()}")

        def test_who_listens_there_says_nothing(self):
            with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
                self.all_are_refused(f"127.0.0.1:{silent.getsockname()[1]}")

if BOUND:
    class AwayTest(StoreCase):
        session = SHORTEST

        def test_a_server_that_is_not_there(self):
            place = f"127.0.0.1:{free_port()}"
            url = SERVER.url("&request_timeout=3s", place=place)
            for words, done in self.all_at_once(EVERY_COMMAND, HOLDFAST_STORE=url):
                with self.subTest(words=words):
                    line = self.refusal(done, words)
                    self.assertIn(place, line)
                    self.assertIn("Is it up and reachable?", line)

        def test_a_server_that_hangs(self):
            running = self.run_locked("--ttl", "2s", "job", "--", "sleep", "60")
            pid = running.event("started")["command_pid"]
            SERVER.signal(signal.SIGSTOP)
            stopped_at = boottime()
            try:
                self.until(lambda: not alive(pid), "the command has ended")
                self.assertLess(boottime() - stopped_at, 2)
                running.event("lost")
                self.assertEqual(running.status(), 123)
                self.assertIn("lost the lock 'job'", running.errors())
                words = (["run", "--wait", "3s", "job", "--", "true"], ["ls"], ["watch"],
                         ["doctor"])
                soon = self.store + "&request_timeout=3s"
                for words, done in self.all_at_once(words, HOLDFAST_STORE=soon):
                    with self.subTest(words=words):
                        self.assertIn("Is it up and reachable?", self.refusal(done, words))
            finally:
                SERVER.signal(signal.SIGCONT)
            self.ok("run", "--wait", "60s", "job", "--", "true", timeout=PATIENCE)

    class RefusalTest(StoreCase):
        """Who may not, and what is written wrong: what, where, what next, and no secret."""

        LOCKING = (["run", "job", "--", "true"], ["hold", "job"], ["break", "job", "--token", "1"],
                   ["elect", "job", "--", "true"])
        LOOKING = (["ls"], ["inspect", "job"], ["watch"], ["top", "--once"])

        def setUp(self):
            super().setUp()
            # On ZooKeeper rights are those of nodes: somebody must have made them.
            self.ok("run", "job", "--", "true")
            self.env = {key: value for key, value in self.env.items()
                        if key != "HOLDFAST_STORE" and not key.endswith(("PASSWORD", "TOKEN"))}

        def test_a_session_longer_than_what_is_set_by_default_is_the_lease(self):
            self.env["HOLDFAST_STORE"] = SERVER.url(f"&ns=case{self.cases}", session="60s")
            self.env[f"HOLDFAST_{STORE.upper()}_{'TOKEN' if STORE == 'consul' else 'PASSWORD'}"] = (
                SERVER.facts["secret"])
            self.ok("run", "job", "--", "true")
            self.assertIn("30000 ms is shorter than the session's 60000 ms",
                          self.refused("run", "--ttl", "30s", "job", "--", "true"))

        def test_more_time_to_end_the_command_than_the_session_has_is_refused(self):
            self.env["HOLDFAST_STORE"] = SERVER.url(f"&ns=case{self.cases}", session="10s")
            self.env[f"HOLDFAST_{STORE.upper()}_{'TOKEN' if STORE == 'consul' else 'PASSWORD'}"] = (
                SERVER.facts["secret"])
            line = self.refused("run", "--kill-after", "5s", "job", "--", "true")
            self.assertRegex(line, r"--kill-after .*of 5s is more than a third of the lease \(of which a "
                                   r"renewal leaves \S+s\).* a longer session= in the store's URL")

        def all_are_refused(self, who, words, secrets=()):
            url = SERVER.url(f"&ns=case{self.cases}", who)
            for arguments, done in self.all_at_once([*self.LOCKING, *self.LOOKING],
                                                    HOLDFAST_STORE=url):
                with self.subTest(arguments=arguments):
                    line = self.refusal(done, arguments)
                    self.assertIn(SERVER.facts["place"].split("/")[0], line)
                    self.assertRegex(line, words)
                    self.assertIn("Fix that, or name another store with --store.", line)
                    for secret in secrets:
                        self.assertNotIn(secret, line)
            done = self.holdfast("doctor", "--store", url)
            self.assertIn(done.returncode, (1, 125), done.stderr)
            self.assertRegex(done.stdout + done.stderr, words)
            for secret in secrets:
                self.assertNotIn(secret, done.stdout + done.stderr)

        def test_a_wrong_secret(self):
            wrong = "00000000-1111-4222-8333-wr0ng00Pw000"
            who = f"{wrong}@" if STORE == "consul" else f"alice:{wrong}@"
            self.all_are_refused(who, "password|token", [wrong])

        def test_no_secret(self):
            self.all_are_refused("", "password|token")

        def test_no_rights(self):
            powerless = SERVER.facts["powerless"]
            self.all_are_refused(powerless, "not allow|may not", [powerless.split(":")[-1][:-1]])

        def test_what_is_written_wrong(self):
            place = SERVER.facts["place"]
            for url, words in ((f"{STORE}://{place}?sesion=2s&session=2s", "'sesion'"),
                               (f"{STORE}://{place}?session=soon", "session"),
                               (f"{STORE}://{place}?session=1ms", "session"),
                               (f"{STORE}://{place}?recipe=none", "recipe"),
                               (f"{STORE}://u:s3cret:{place}", ""),
                               (f"{STORE}://{place}&password=s3cret", "")):
                with self.subTest(url=url):
                    line = self.refused("ls", "--store", url)
                    self.assertIn(words, line)
                    self.assertNotIn("s3cret", line)

        def test_a_ttl_below_the_sessions_is_refused_by_name(self):
            place = SERVER.facts["place"]
            url = f"{STORE}://{SERVER.facts['user']}{place}"  # The session is the store's own.
            variable = "TOKEN" if STORE == "consul" else "PASSWORD"
            self.env[f"HOLDFAST_{STORE.upper()}_{variable}"] = SERVER.facts["secret"]
            line = self.refused("run", "--store", url, "--ttl", "1s", "job", "--", "true")
            self.assertIn("session", line)


def setUpModule():
    global SERVER
    if SERVED:
        SERVER = Server()
        unittest.addModuleCleanup(SERVER.stop)


if __name__ == "__main__":
    if STORE == "redis":
        redis_server.main()
    else:
        harness.main()
