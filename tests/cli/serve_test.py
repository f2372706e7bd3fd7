"""`holdfast serve` as real processes: killed, restarted, stopped, doubled, and talked to by strangers."""

import contextlib
import http.client
import json
import os
import queue
import re
import select
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import threading
import time
import unittest

import harness
from harness import PATIENCE, PROGRAM, CliCase, boottime
from redis_server import die_with_parent, free_port


NAME_OF_SHARD_3 = "job-2"  # Of a service with four shards.


class ServeCase(CliCase):
    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.url = f"holdfast://127.0.0.1:{self.port}"
        self.env["HOLDFAST_STORE"] = self.url
        self.data = self.path("journal")
        self.server = None

    def serve(self, *arguments):
        """The server, and what it says when it serves."""
        server = subprocess.Popen(
            [PROGRAM, "serve", "--json", *arguments], env=self.env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
        self.addCleanup(self.end, server)
        if not select.select([server.stdout], [], [], PATIENCE)[0]:
            self.fail(f"the server said nothing in {PATIENCE} s")
        line = server.stdout.readline()
        if not line:
            self.fail(f"the server ended with {server.wait()}: {server.stderr.read()}")
        return server, json.loads(line)

    def start(self):
        self.server, said = self.serve("--listen", f"127.0.0.1:{self.port}", "--data", self.data)
        return said

    def end(self, server):
        if server.poll() is None:
            server.kill()
        server.wait()
        server.stdout.close()
        server.stderr.close()

    def kill(self):
        self.server.kill()
        self.server.wait()

    def get(self, said, path, host="localhost"):
        """The text at a path of the HTTP port."""
        connection = http.client.HTTPConnection(said["http"], timeout=PATIENCE)
        self.addCleanup(connection.close)
        connection.request("GET", path, headers={"Host": host})
        return connection.getresponse().read().decode()

    def ok(self, *arguments, **options):
        done = self.holdfast(*arguments, timeout=PATIENCE, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def refused(self, *arguments):
        """One line that says why `serve` does not begin."""
        done = self.holdfast("serve", *arguments, timeout=PATIENCE)
        self.assertEqual(done.returncode, 125, done.stdout)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr


class RestartTest(ServeCase):
    def test_it_says_where_its_journal_is_and_how_to_connect(self):
        said = self.start()
        self.assertEqual((said["event"], said["url"], said["address"], said["pid"]),
                         ("serving", self.url, f"127.0.0.1:{self.port}", self.server.pid))
        self.assertIn(self.data, said["journal"])
        self.assertTrue(os.path.isdir(self.data))
        self.ok("run", "job", "--", "true")
        self.ok("doctor", "--quiet", "--require", "fenced,fair,survives-restart")

    def test_a_doctor_names_what_helps_on_this_store(self):
        self.start()
        done = self.holdfast("doctor", "-q", "--require", "survives-failover")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("here several servers with a journal in etcd give it", done.stderr)
        _, said = self.serve("--listen", "127.0.0.1:0", "--journal", "memory:", "--shards", "2")
        for required, advice, other in (
                ("survives-restart", "here a server whose journal is a folder or etcd gives it", "etcd"),
                ("multi", "whose journal was begun with 'holdfast serve --shards 1' give it", "postgres")):
            done = self.holdfast("doctor", "-q", "--store", said["url"], "--require", required)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(advice, done.stderr)
            others = done.stderr.partition("these do ('holdfast help stores'): ")[2].partition(";")[0]
            self.assertIn(other, others)
            self.assertNotIn("holdfast", others)

    def test_a_person_is_told_in_sentences(self):
        server = subprocess.Popen(
            [PROGRAM, "serve", "--listen", "127.0.0.1:0", "--journal", "memory:"], env=self.env,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
        self.addCleanup(self.end, server)
        first = server.stdout.readline()
        self.assertRegex(first, r"^serving holdfast://127\.0\.0\.1:\d+$")
        url = first.split()[1]
        self.assertIn("journal:", server.stdout.readline())
        self.assertIn("users: none", server.stdout.readline())
        self.assertIn(f"holdfast run --store {url} NAME -- COMMAND", server.stdout.readline())
        self.ok("run", "--store", url, "job", "--", "true")
        self.assertIn("in memory", self.ok("doctor", "--store", url).stdout)
        server.terminate()
        self.assertEqual(server.wait(PATIENCE), 0)
        stopping, stopped = server.stdout.read().splitlines()
        self.assertRegex(stopping, r"^stopping \(SIGTERM\): ")
        self.assertEqual(stopped, "stopped")

    def test_nobody_who_reads_does_not_change_how_it_ends(self):
        server = subprocess.Popen([PROGRAM, "serve", "--listen", "127.0.0.1:0", "--journal", "memory:"],
                                  env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  preexec_fn=die_with_parent)
        self.addCleanup(self.end, server)
        for _ in range(4):
            server.stdout.readline()
        server.stdout.close()
        server.terminate()
        self.assertEqual(server.wait(PATIENCE), 0, server.stderr.read())

    def test_a_killed_server_keeps_every_answered_grant_and_token(self):
        first = self.start()
        leases = {name: self.ok("acquire", "--ttl", "60s", name).stdout.strip()
                  for name in ("a", "b", "c")}
        before = {name: self.inspect(name) for name in leases}
        self.kill()
        again = self.start()
        self.assertEqual(again["journal_id"], first["journal_id"])
        for name, lease in leases.items():
            self.assertEqual(self.inspect(name)["token"], before[name]["token"])
            self.assertEqual(self.inspect(name)["owner"], before[name]["owner"])
            self.assertEqual(self.holdfast("run", "--no-wait", name, "--", "true").returncode, 124)
            self.ok("renew", lease)
            self.ok("release", lease)
            token = self.ok("run", "--no-wait", name, "--", "sh", "-c", "echo $HOLDFAST_TOKEN")
            self.assertGreater(token.stdout.strip(), before[name]["token"])

    def test_a_metric_counts_the_leases_that_a_crash_lengthened(self):
        def extended():
            self.server, said = self.serve("--listen", f"127.0.0.1:{self.port}", "--data",
                                           self.data, "--http", "127.0.0.1:0")
            found = re.search(r"^holdfast_server_extended_leases_total (\d+)$",
                              self.get(said, "/metrics"), re.M)
            return int(found[1])

        self.assertEqual(extended(), 0)
        for name in ("a", "b", "c"):
            self.ok("acquire", "--ttl", "60s", name)
        self.kill()
        self.assertEqual(extended(), 3)
        self.server.terminate()
        self.server.wait(PATIENCE)
        self.assertEqual(extended(), 0)

    def test_fence_check_asks_the_service_also_after_a_kill(self):
        self.start()

        def check(*arguments):
            return self.holdfast("fence", "check", "--store", self.url, *arguments, timeout=PATIENCE)

        lease = self.ok("acquire", "--ttl", "60s", "stock").stdout.strip()
        token = self.inspect("stock")["token"]
        self.assertEqual(check("--token", token, "stock").returncode, 0)
        self.kill()
        away = check("--token", token, "stock")
        self.assertEqual(away.returncode, 125, "a server that is away says nothing of a token")
        self.start()
        said = json.loads(check("--json", "--token", token, "stock").stdout)
        self.assertEqual(said, {"name": "stock", "token": token, "current": True})
        self.ok("release", lease)
        late = check("--token", token, "stock")
        self.assertEqual(late.returncode, 123)
        self.assertIn("that hold has ended", late.stderr)
        self.ok("run", "stock", "--", PROGRAM, "fence", "check", "--store", self.url, "stock")
        self.assertIs(json.loads(check("--json", "--token", token, "stock").stdout)["current"], False)

    def test_holders_and_waiters_go_on_over_a_restart(self):
        self.start()
        first = self.holder("job", ttl="20s")
        waiter = self.run_locked("--ttl", "20s", "job", "--", "echo", "had it")
        waiter.event("waiting")
        self.kill()
        self.start()
        self.assertIsNone(first.process.poll())
        first.signal(signal.SIGTERM)
        self.assertEqual(waiter.line(), "had it")
        self.assertEqual((first.status(), waiter.status()), (143, 0))

    def test_a_watch_tells_each_change_and_says_when_it_missed_some(self):
        self.start()
        watch = subprocess.Popen(
            [PROGRAM, "watch", "--json", "w/"], env=self.env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            preexec_fn=die_with_parent)
        lines = queue.Queue()
        reader = threading.Thread(target=lambda: [lines.put(line) for line in watch.stdout])
        reader.start()
        for end in (watch.stdout.close, lambda: watch.wait(PATIENCE), reader.join, watch.terminate):
            self.addCleanup(end)

        def event():
            said = json.loads(lines.get(timeout=PATIENCE))
            return said["event"], said["name"]

        # Nothing says when it has begun, but its first event: one lock after the other is taken.
        number = 0
        while lines.empty():
            number += 1
            self.ok("run", f"w/{number}", "--", "true")
        while event() != ("released", f"w/{number}"):
            pass
        for name in ("w/a", "elsewhere", "w/b"):
            self.ok("run", name, "--", "true")
        self.assertEqual([event() for _ in range(4)], [("granted", "w/a"), ("released", "w/a"),
                                                       ("granted", "w/b"), ("released", "w/b")])
        self.kill()
        self.start()
        self.assertEqual(event(), ("missed", "w/"))
        self.ok("run", "w/c", "--", "true")
        self.assertEqual([event() for _ in range(2)], [("granted", "w/c"), ("released", "w/c")])

    def test_many_kills_forget_nothing(self):
        last = ""
        for _ in range(5):
            self.start()
            token = self.ok("run", "job", "--", "sh", "-c", "echo $HOLDFAST_TOKEN").stdout.strip()
            self.assertGreater(token, last)
            last = token
            lease = self.ok("acquire", "--ttl", "60s", "kept").stdout.strip()
            self.kill()
            self.start()
            self.ok("release", lease)
            # A release is answered before its commit. A kill right behind it may forget it.
            self.ok("run", "job", "--", "true")
            self.kill()

    def test_a_signal_stops_it_with_0_and_leases_stay(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            self.start()
            lease = self.ok("acquire", "--ttl", "60s", "job").stdout.strip()
            self.server.send_signal(number)
            self.assertEqual(self.server.wait(PATIENCE), 0)
            self.assertEqual(json.loads(self.server.stdout.readline())["event"], "stopped")
            # This host's disk may be nearly full, which is worth a warning.
            said = [line for line in self.server.stderr if "the disk of the journal" not in line]
            self.assertEqual(said, [])
            self.start()
            self.ok("release", lease)
            self.server.terminate()
            self.server.wait(PATIENCE)

    def test_what_was_not_released_ends_with_its_lease(self):
        self.start()
        self.ok("acquire", "--ttl", "1s", "job")
        self.kill()
        self.start()
        begun = boottime()
        self.ok("run", "--wait", "60s", "job", "--", "true")
        self.assertLess(boottime() - begun, PATIENCE)

    def test_another_journal_on_the_same_port_is_told_apart(self):
        self.start()
        holder = self.holder("job", ttl="3s")
        self.kill()
        self.data = self.path("other")
        self.start()
        self.assertEqual(holder.status(), 123, "its lock is not there, so it is lost")

    def test_a_service_with_another_number_of_shards_is_told_apart(self):
        def start(shards):
            self.server, _ = self.serve("--listen", f"127.0.0.1:{self.port}", "--journal", "memory:",
                                        "--shards", shards)

        for before, after in (("1", "4"), ("4", "1"), ("4", "2")):
            with self.subTest(before=before, after=after):
                start(before)
                self.ok("acquire", "--ttl", "60s", NAME_OF_SHARD_3)
                waiter = self.run_locked("--wait", "60s", NAME_OF_SHARD_3, "--", "true")
                waiter.event("waiting")
                self.kill()
                start(after)
                self.assertEqual(waiter.status(), 125)
                said = waiter.process.stderr.read().decode()
                self.assertIn("another number of shards", said)
                self.assertIn("name the servers of one service", said)
                self.assertNotIn("update", said)
                self.kill()


class RefusalTest(ServeCase):
    def test_a_second_server_on_the_folder_is_refused(self):
        self.start()
        line = self.refused("--listen", "127.0.0.1:0", "--data", self.data)
        self.assertIn(self.data, line)
        self.assertRegex(line, f"process {self.server.pid}.* uses the folder")
        self.ok("run", "job", "--", "true")  # The first one serves on.

    def test_a_port_that_is_taken(self):
        self.start()
        line = self.refused("--listen", f"127.0.0.1:{self.port}", "--data", self.path("second"))
        self.assertIn(str(self.port), line)
        self.assertIn("--listen", line)

    def test_addresses_of_others_are_refused_because_there_are_no_users(self):
        for address in ("0.0.0.0:7420", "[::]:7420", "192.0.2.1:7420"):
            line = self.refused("--listen", address, "--journal", "memory:")
            self.assertIn(address, line)
            self.assertIn("--users FILE", line)

    def test_what_is_written_wrong(self):
        for arguments, word in (
                (("--listen", "7420"), "no port"),
                (("--listen", "127.0.0.1:http"), "port"),
                (("--listen", "127.0.0.1:99999"), "port"),
                (("--listen", "nowhere:7420"), "IP address"),
                (("--data", "x", "--journal", "memory:"), "contradict"),
                (("--data", ""), "folder"),
                (("--journal", "paper:"), "paper"),
                (("--journal", ""), "journal"),
                (("--data", "/dev/null/x"), "/dev/null"),
                (("--port", "7420"), "--port"),
                (("here",), "here")):
            with self.subTest(arguments=arguments):
                self.assertIn(word, self.refused(*arguments))

    def test_http_has_its_own_port_by_option_and_by_file(self):
        file = self.path("serve.toml")
        with open(file, "w", encoding="utf-8") as out:
            out.write('[serve]\nlisten = "127.0.0.1:0"\njournal = "memory:"\n'
                      'http = "127.0.0.1:0"\nhttp_host = "locks.example"\n')
        for arguments in (["--config", file],
                          ["--listen", "127.0.0.1:0", "--journal", "memory:", "--http",
                           "127.0.0.1:0", "--http-host", "other.example,locks.example"]):
            _, said = self.serve(*arguments)
            self.assertEqual(self.get(said, "/readyz", host="locks.example"), "ready\n")

    def test_the_calls_of_the_guide_work_as_they_are_written(self):
        guide = os.path.join(os.path.dirname(__file__), "../../docs/guide/http.md")
        with open(guide, encoding="utf-8") as page:
            script = re.search(r"```sh\n(.*?)```", page.read(), re.S).group(1)
        _, said = self.serve("--listen", "127.0.0.1:0", "--journal", "memory:", "--http",
                             "127.0.0.1:0")
        script = script.replace("127.0.0.1:7421", said["http"])
        done = subprocess.run(["bash", "-eu", "-c", script], env=self.env, capture_output=True,
                              text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        taken, renewed, seen, ended, broken = map(json.loads, done.stdout.splitlines())
        self.assertEqual((taken["name"], taken["ttl_ms"]), ("report", 30000))
        self.assertEqual((renewed["id"], renewed["token"]), (taken["id"], taken["token"]))
        self.assertEqual([each["owner"] for each in seen["holders"]], ["nightly"])
        self.assertNotIn("error", ended)
        self.assertEqual(broken, {"name": "report", "broken": True})
        gone = json.loads(self.get(said, "/v1/locks/report"))
        self.assertEqual((gone["holders"], gone["last_break"]["reason"]), ([], "its host is gone"))

    def test_http_tells_that_only_a_lock_delay_keeps_a_lock_closed(self):
        self.server, said = self.serve("--listen", f"127.0.0.1:{self.port}", "--journal", "memory:", "--http",
                                       "127.0.0.1:0")

        def ask(wait):
            connection = http.client.HTTPConnection(said["http"], timeout=PATIENCE)
            self.addCleanup(connection.close)
            connection.request("POST", "/v1/locks/job/acquire", json.dumps({"ttl_ms": 1000, "wait_ms": wait}),
                               {"Content-Type": "application/json", "Holdfast-Request": "1"})
            answer = connection.getresponse()
            return answer.status, answer.getheader("Retry-After"), json.loads(answer.read())["error"]

        running = self.run_locked("--ttl", "1s", "--lock-delay", "50s", "job", "--", "sleep", "60")
        running.event("started")
        self.assertNotIn("lock-delay", ask(0)[2]["message"])
        self.assertNotIn("opens_in_ms", json.loads(self.get(said, "/v1/locks/job")))
        running.signal(signal.SIGKILL)
        running.status()
        self.until(lambda: "nobody holds the lock any more" in ask(0)[2]["message"], "its lease is over")
        for wait in (0, 200):
            status, later, error = ask(wait)
            self.assertEqual((status, error["code"]), (409, "busy"))
            self.assertRegex(error["message"], r"lock-delay keeps it closed for \d+ ms$")
            self.assertTrue(40 <= int(later) <= 50, later)
        seen = json.loads(self.get(said, "/v1/locks/job"))
        self.assertEqual((seen["holders"][0]["lock_delay_ms"], seen["queue"]), (50000, []))
        self.assertTrue(40_000 < seen["opens_in_ms"] <= 50_000, seen)

    def test_a_waiter_is_told_that_only_a_lock_delay_keeps_a_lock_closed(self):
        self.start()
        running = self.run_locked("--ttl", "1s", "--lock-delay", "50s", "job", "--", "sleep", "60")
        running.event("started")
        waiting = self.run_locked("--wait", "8s", "job", "--", "true")
        self.assertNotIn("opens_in_ms", waiting.event("waiting"), "its holder lives")
        running.signal(signal.SIGKILL)
        running.status()
        told = waiting.event("waiting")
        self.assertTrue(40_000 < told["opens_in_ms"] <= 50_000, told)
        self.assertEqual(len(told["holders"]), 1)
        self.assertEqual(waiting.status(), 124)
        done = self.holdfast("acquire", "--wait", "1s", "job", timeout=PATIENCE)
        self.assertEqual(done.returncode, 124)
        self.assertIn("did not get 'job' within 1s; its lock-delay keeps it closed for", done.stderr)
        self.ok("break", "job", "--token", self.inspect("job")["token"])
        self.ok("run", "--no-wait", "job", "--", "true")

    def test_a_lock_in_its_lock_delay_is_not_called_held(self):
        self.start()
        running = self.run_locked("--ttl", "1s", "--lock-delay", "50s", "job", "--", "sleep", "60")
        running.event("started")
        pid = self.inspect("job")["pid"]
        self.assertIn("held by", self.ok("status", "job").stdout)
        running.signal(signal.SIGKILL)
        running.status()
        self.until(lambda: "opens_in_ms" in self.inspect("job"), "its lease is over")
        told = self.ok("status", "job").stdout
        self.assertRegex(told, r"job: free after a lock-delay of [34]\d")
        self.assertRegex(told, rf"job: last held by .*\(pid {pid}\), token [\d.]+\n")
        self.assertNotIn(": held", told)
        self.assertTrue(self.inspect("job")["opens_in_ms"] <= 50_000)
        self.assertRegex(self.ok("ls").stdout, r"job +lock-delay +")
        self.assertIn("job: held by nobody", self.ok("inspect", "job").stdout)
        self.assertRegex(self.ok("top", "--once").stdout, r"job +lock-delay +")
        for command in ("run", "acquire", "elect"):
            what = () if command == "acquire" else ("--", "true")
            done = self.holdfast(command, "--no-wait", "job", *what)
            self.assertEqual(done.returncode, 124)
            self.assertRegex(done.stderr, rf"'job' is held by nobody, last by .*pid {pid}, since .*; its "
                                          "lock-delay keeps it closed for [34]")
        trying = self.run_locked("--no-wait", "job", "--", "true")
        event = trying.event("timeout")
        self.assertTrue(30_000 < event["opens_in_ms"] <= 50_000, event)
        self.assertEqual(event["holders"][0]["pid"], pid)

    def test_waiting_for_a_lock_in_its_lock_delay_is_told_once(self):
        self.start()
        running = self.run_locked("--ttl", "1s", "--lock-delay", "50s", "job", "--", "sleep", "60")
        running.event("started")
        running.signal(signal.SIGKILL)
        running.status()
        self.until(lambda: "opens_in_ms" in self.inspect("job"), "its lease is over")
        done = self.holdfast("run", "--json-fd", "1", "--wait", "3s", "job", "--", "true")
        self.assertEqual(done.returncode, 124, done.stderr)
        events = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([each["event"] for each in events], ["waiting", "timeout"])
        for each in events:
            self.assertTrue(30_000 < each["opens_in_ms"] <= 50_000, each)

    def test_http_beyond_loopback_needs_users(self):
        done = self.holdfast("serve", "--listen", "127.0.0.1:0", "--journal", "memory:", "--http",
                             "0.0.0.0:0", timeout=PATIENCE)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--users FILE", done.stderr)


class MemoryTest(ServeCase):
    """The memory of a server, in bytes."""

    def memory(self, what="VmRSS"):
        with open(f"/proc/{self.server.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith(what + ":"))

    def hold(self, first, count):
        """Takes so many locks for 24 h."""
        requests = b"".join(
            b"*6\r\n$3\r\nSET\r\n$10\r\njob-%06d\r\n$2\r\nme\r\n$2\r\nNX\r\n$2\r\nPX\r\n$8\r\n86400000\r\n" % i
            for i in range(first, first + count))
        self.socket.sendall(requests)
        told = b""
        while len(told) < 5 * count:
            more = self.socket.recv(65536)
            self.assertTrue(more)
            told += more
        self.assertEqual(told, b"+OK\r\n" * count)

    def test_a_snapshot_leaves_little_memory_behind(self):
        self.start()
        if self.memory("VmSize") > 1 << 40:
            self.skipTest("the memory of this build is a sanitizer's")
        self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        self.addCleanup(self.socket.close)
        before = self.memory()
        # A snapshot is written after 4 MiB of batches.
        count = 40_000
        for first in range(0, count, 500):
            self.hold(first, 500)
        self.until(self.has_snapshot, "a snapshot was written")
        self.until(lambda: self.memory() - before < 1_150 * count, "its memory is given back")

    def has_snapshot(self):
        with contextlib.closing(sqlite3.connect(f"file:{self.data}/journal.db?mode=ro", uri=True)) as journal:
            return journal.execute("SELECT head_count FROM meta").fetchone()[0] > 0


class FolderTest(ServeCase):
    """The journal's files are deleted, moved and replaced, under a server and between two of them."""

    def file(self, name):
        return os.path.join(self.data, name)

    def held(self):
        """A server that holds one lock, which was acquired before the journal was copied."""
        self.start()
        self.lease = self.ok("acquire", "--ttl", "60s", "job").stdout.strip()

    def start_restored(self, *arguments):
        self.server, said = self.serve("--listen", f"127.0.0.1:{self.port}", "--data", self.data,
                                       *arguments)
        return said

    def test_status_notices_servers_of_different_services(self):
        self.start()
        self.ok("server", "status")
        other, said = self.serve("--listen", "127.0.0.1:0", "--data", self.path("another"))
        both = f"{self.url},{said['address']}"
        done = self.holdfast("server", "status", both)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("are of different lock services", done.stdout)
        self.assertFalse(json.loads(self.holdfast("server", "status", "--json", both).stdout)["one_service"])
        done = self.holdfast("server", "step-down", both)
        self.assertEqual(done.returncode, 125, "a leader of the other service is no successor")
        self.assertIn("are of different lock services", done.stderr)
        for words in (("server", "members", both), ("doctor", "--store", both), ("doctor", "-q", "--store", both)):
            done = self.holdfast(*words)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("are of different lock services", " ".join(done.stdout.split()))
        other.kill()
        other.wait()
        self.assertTrue(json.loads(self.holdfast("server", "status", "--json", both).stdout)["one_service"])
        self.assertIn(f"{said['address']} is not on the list: no answer: ", self.ok("server", "members", both).stdout)
        findings = json.loads(self.ok("doctor", "--json", "--store", both).stdout)["findings"]
        (silent,) = (each["what"] for each in findings if each["topic"] == "servers")
        self.assertIn(f"{said['address']}: no answer", silent)
        shards = ("--listen", "127.0.0.1:0", "--journal", "memory:", "--shards", "4")
        one, two = (self.serve(*shards)[1]["address"] for _ in range(2))
        done = self.holdfast("server", "status", f"holdfast://{one},{two}")
        self.assertIn("are of different lock services", done.stdout)
        # One server under two names.
        self.ok("server", "status", f"holdfast://{one},{one.replace('127.0.0.1', 'localhost')}")

    def test_a_deleted_lock_file_lets_no_second_server_in(self):
        self.start()
        holder = self.holder("job", ttl="2s")  # It only renews from now on.
        os.remove(self.file("lock"))
        for _ in range(3):  # The first refused one leaves a new file behind.
            line = self.refused("--listen", "127.0.0.1:0", "--data", self.data)
            self.assertIn("a server uses the folder", line)
        self.assertEqual(self.holdfast("run", "--wait", "3s", "job", "--", "true").returncode, 124)
        self.assertIsNone(holder.process.poll())
        self.kill()
        self.start()
        holder.signal(signal.SIGTERM)
        self.assertEqual(holder.status(), 143)

    def test_a_server_whose_clients_only_renew_ends_when_its_files_are_taken_away(self):
        for name in ("journal.db", "journal.db-wal", "journal.db-shm"):
            self.data = self.path("taken-" + name)
            self.start()
            holder = self.holder("job", ttl="2s")
            os.rename(self.file(name), self.file("away"))
            self.assertEqual(self.server.wait(PATIENCE), 125)
            self.assertIn("moved, removed or replaced", self.server.stderr.read())
            self.assertEqual(holder.status(), 123, "it is told of the loss")

    def test_a_folder_that_lost_its_database_never_begins_anew(self):
        for damage in ("remove", "empty", "remove with its log"):
            with self.subTest(damage=damage):
                self.data = self.path(damage)
                self.assertTrue(self.start()["new_journal"])
                self.ok("acquire", "--ttl", "60s", "job")
                self.kill()
                if damage == "empty":
                    os.truncate(self.file("journal.db"), 0)
                    os.remove(self.file("journal.db-wal"))
                else:
                    os.remove(self.file("journal.db"))
                if damage == "remove with its log":
                    os.remove(self.file("journal.db-wal"))
                line = self.refused("--listen", "127.0.0.1:0", "--data", self.data)
                self.assertRegex(line, "is (missing|empty)")
                self.assertIn("journal.id", line)
                self.assertIn("restore a backup", line)

    def test_a_database_that_lost_its_log_grants_nothing(self):
        self.held()
        self.server.terminate()
        self.server.wait(PATIENCE)
        self.start()
        self.ok("acquire", "--ttl", "60s", "forgotten")
        self.kill()
        os.remove(self.file("journal.db-wal"))
        said = self.start_restored()
        self.assertRegex(said["restored"], "term|log")
        self.assertEqual(said["quiet_s"], 24 * 3600)
        done = self.holdfast("run", "--no-wait", "forgotten", "--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("--clients-stopped", done.stderr)

    def pass_hours(self, hours):
        """No server runs for so long, while the host does."""
        with open(self.file("journal.id"), encoding="utf-8") as file:
            text = file.read()
        earlier = lambda found: f"noted_us {int(found.group(1)) - hours * 3600 * 10**6}"
        with open(self.file("journal.id"), "w", encoding="utf-8") as file:
            file.write(re.sub(r"noted_us (-?\d+)", earlier, text))

    def assert_told_as_restored(self, hours):
        """Nobody takes a server that grants nothing for one that is well."""
        done = self.holdfast("doctor")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"copy that was put back: nothing is granted for \d+ s more")
        done = self.holdfast("server", "status")
        self.assertEqual(done.returncode, 1, "it grants nothing")
        self.assertRegex(done.stdout, "leads, restored: grants nothing  +")
        self.assertRegex(done.stdout, rf"journal {self.data} is a restored copy, so no lock is granted for \d+")
        self.assertIn(self.status()["quiet_s"], range((hours - 1) * 3600, hours * 3600 + 1))

    def status(self):
        (only,) = json.loads(self.holdfast("server", "status", "--json").stdout)["servers"]
        return only

    def test_a_copy_of_the_folder_waits_until_clients_are_stopped(self):
        self.held()
        self.server.terminate()
        self.server.wait(PATIENCE)
        before = self.path("copy")
        shutil.copytree(self.data, before)
        self.start()
        token = self.ok("run", "other", "--", "sh", "-c", "echo $HOLDFAST_TOKEN").stdout.strip()
        self.kill()
        shutil.rmtree(self.data)
        shutil.copytree(before, self.data)
        for hours in (24, 22):  # A restart does not end the wait, nor begin it anew.
            said = self.start_restored("--http", "127.0.0.1:0")
            self.assertIn(said["quiet_s"], range((hours - 1) * 3600, hours * 3600 + 1))
            done = self.holdfast("run", "--no-wait", "other", "--", "true")
            self.assertEqual(done.returncode, 125)
            self.assertIn("grants nothing", done.stderr)
            self.ok("ls")  # Reads are answered.
            self.assert_told_as_restored(hours)
            self.assertRegex(self.get(said, "/readyz"), r"restored copy and grants nothing for \d+ s")
            self.server.terminate()
            self.assertEqual(self.server.wait(PATIENCE), 0)
            self.pass_hours(2)
        said = self.start_restored("--clients-stopped")
        self.assertEqual(said["quiet_s"], 0)
        self.ok("doctor")
        self.assertEqual(self.status()["quiet_s"], 0)
        self.assertNotIn("restored", self.ok("server", "status").stdout)
        later = self.ok("run", "other", "--", "sh", "-c", "echo $HOLDFAST_TOKEN").stdout.strip()
        self.assertGreater(later, token)
        self.ok("release", self.lease)
        self.server.terminate()
        self.server.wait(PATIENCE)
        self.assertEqual(self.start()["restored"], "")

    def test_a_client_that_gave_up_while_the_server_stood_still_takes_nothing(self):
        self.start()
        self.server.send_signal(signal.SIGSTOP)
        self.until(lambda: harness.stands_still(self.server.pid), "it stands still")

        def take(name):
            words = ("SET", name, "me", "NX", "PX", "60000")
            client = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
            client.sendall(("*6\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)).encode())
            return client

        with take("late"):
            pass
        with take("patient") as patient:
            time.sleep(1.2)  # A request is late after a second.
            self.server.send_signal(signal.SIGCONT)
            self.assertEqual(patient.recv(5), b"+OK\r\n")
        held = self.ok("ls").stdout
        self.assertIn("patient", held)
        self.assertNotIn("late", held)

    def test_it_says_which_journal_it_took_up(self):
        first = self.start()
        self.assertTrue(first["new_journal"])
        self.ok("acquire", "--ttl", "60s", "job")
        self.kill()
        again = self.start()
        self.assertEqual((again["new_journal"], again["locks"], again["restored"]), (False, 1, ""))
        self.assertRegex(again["term"], "^2-")

    def test_its_files_are_for_its_user_alone(self):
        os.umask(0o022)
        self.start()
        self.ok("run", "job", "--", "true")
        for name in os.listdir(self.data):
            self.assertEqual(os.stat(self.file(name)).st_mode & 0o777, 0o600, name)

    def test_a_start_that_fails_leaves_nothing_behind(self):
        os.mkdir(self.path("folder"))
        with open(self.path("folder/file"), "w", encoding="utf-8"):
            pass
        line = self.refused("--listen", "127.0.0.1:0", "--data", self.path("folder/file"))
        self.assertIn("is a file", line)
        self.start()
        self.refused("--listen", f"127.0.0.1:{self.port}", "--data", self.path("folder/new"))
        self.assertEqual(os.listdir(self.path("folder")), ["file"])


def can_mount():
    """Whether a server can have a small disk of its own."""
    try:
        return subprocess.run(["unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt"],
                              stderr=subprocess.DEVNULL, check=False).returncode == 0
    except OSError:
        return False


@unittest.skipUnless(can_mount(), "nobody may mount a disk here (that needs root)")
class FullDiskTest(ServeCase):
    """The journal is on a disk of 8 MiB, which the test fills and empties."""

    ARGUMENTS = ""

    def setUp(self):
        super().setUp()
        self.said = ""
        disk = self.path("disk")
        os.mkdir(disk)
        self.server = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=8m none "$1" && exec "$2" serve '
             f'--listen "$3" --data "$1/j" {self.ARGUMENTS}', "sh", disk, PROGRAM, f"127.0.0.1:{self.port}"],
            env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, preexec_fn=die_with_parent)
        self.addCleanup(self.end, self.server)
        self.assertIn("serving", self.server.stdout.readline())
        self.ballast = f"/proc/{self.server.pid}/root{disk}/ballast"

    def fill(self):
        """Afterwards a commit has failed: until the log's own room is used up, some succeed."""
        with open(self.ballast, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass
        for number in range(2_000):
            done = self.holdfast("run", "--no-wait", f"filler-{number}", "--", "true")
            if done.returncode:
                self.assertEqual(done.returncode, 125, done.stderr)
                return
        self.fail("the disk never became full")

    def warning(self, text):
        """Reads until the server has said so; bytes, because a file object would keep lines back."""
        while text not in self.said:
            if not select.select([self.server.stderr], [], [], PATIENCE)[0]:
                self.fail(f"the server did not say: {text}, but: {self.said}")
            got = os.read(self.server.stderr.fileno(), 65536).decode()
            self.assertTrue(got, f"the server ended: {self.said}")
            self.said += got

    def test_operators_are_told_that_the_disk_is_nearly_full(self):
        status = lambda: json.loads(self.ok("server", "status", "--json").stdout)["servers"][0]
        self.assertIn(status()["disk_percent"], range(80))
        self.assertNotIn("% full", self.ok("server", "status").stdout)
        with open(self.ballast, "wb") as file:
            file.write(bytes(7 << 20))
        self.warning(" % full. When it is full, no lock is granted")
        percent = status()["disk_percent"]
        self.assertIn(percent, range(80, 100))
        self.assertRegex(self.ok("server", "status").stdout, rf"of its journal /\S+/disk/j is {percent} % full")
        self.assertRegex(self.holdfast("doctor").stdout, r"quota, is \d+ % full")

    def test_a_waiter_is_told_of_its_grant_when_that_is_committed_and_of_no_loss(self):
        holder = self.holder("job", ttl="3s")
        waiter = self.run_locked("--ttl", "3s", "job", "--", "echo", "had it")
        waiter.event("waiting")
        self.fill()
        self.warning("cannot be written")
        self.assertIsNone(holder.process.poll(), "renewals go on")
        done = self.holdfast("server", "status")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, rf"127\.0\.0\.1:{self.port}: its journal /\S+/disk/j cannot be written")
        holder.signal(signal.SIGTERM)
        holder.status()
        # Its release is not in the journal, so a read does not tell of it, and does not hang.
        done = self.holdfast("inspect", "job", timeout=PATIENCE)
        self.assertEqual(done.returncode, 125, done.stdout)
        self.assertIn("cannot be written for now", done.stderr)
        self.assertIsNone(waiter.process.poll())
        doctor = self.holdfast("doctor")
        self.assertNotEqual(doctor.returncode, 0)
        self.assertIn("cannot be written", doctor.stdout)
        os.remove(self.ballast)
        self.assertEqual(waiter.line(), "had it")
        self.assertEqual(waiter.status(), 0)
        self.warning("written again")
        # Each of several shards says it by itself.
        self.until(lambda: "cannot be written" not in self.holdfast("doctor").stdout, "all are written again")


class ToolsTest(ServeCase):
    """`holdfast server`: the journal is verified, backed up under a server, and put back."""

    def test_a_backup_of_a_live_server_is_whole_and_comes_back(self):
        self.start()
        leases = {name: self.ok("acquire", "--ttl", "60s", name).stdout.strip()
                  for name in ("a", "b", "c")}
        copy = self.path("copy")
        said = json.loads(self.ok("server", "backup", self.data, copy, "--json").stdout)
        self.assertEqual((said["locks"], said["holders"], said["waiters"]), (3, 3, 0))
        self.assertEqual(os.stat(copy).st_mode & 0o777, 0o600)
        self.ok("release", leases.pop("a"))  # The server goes on.
        self.kill()
        for name in ("journal.db", "journal.db-wal", "journal.db-shm"):
            os.rename(os.path.join(self.data, name), self.path("old-" + name))
        self.assertIn("24 h", self.ok("server", "restore", copy, self.data).stdout)
        self.server, said = self.serve("--listen", f"127.0.0.1:{self.port}", "--data", self.data)
        self.assertEqual((said["locks"], said["quiet_s"]), (3, 24 * 3600))
        self.kill()
        self.server, said = self.serve("--listen", f"127.0.0.1:{self.port}", "--data", self.data,
                                       "--clients-stopped")
        for lease in leases.values():
            self.ok("release", lease)

    def test_a_backup_over_the_databases_own_file_is_noticed(self):
        self.start()
        copy = self.path("copy")
        self.ok("server", "backup", self.data, copy)
        self.server.terminate()
        self.assertEqual(self.server.wait(PATIENCE), 0)
        with open(copy, "rb") as source, open(os.path.join(self.data, "journal.db"), "r+b") as target:
            target.write(source.read())
            target.truncate()
        self.assertIn("term", self.start()["restored"])

    def test_tokens_of_a_restored_backup_are_new_though_the_clock_was_set_back(self):
        if not os.path.exists(harness.CLOCK_SHIM):
            self.skipTest("needs the shim of the clock (target test_clock_shim)")
        self.start()
        copy = self.path("copy")
        self.ok("server", "backup", self.data, copy)
        token = lambda: self.ok("run", "job", "--", "sh", "-c", "echo $HOLDFAST_TOKEN").stdout.strip()
        forgotten = [token() for _ in range(3)]
        self.kill()
        shutil.rmtree(self.data)
        self.ok("server", "restore", copy, self.data)
        clock = self.path("clock")
        with open(clock, "wb") as file:
            file.write(struct.pack("q", -3600 * 10**9))
        right = self.env
        self.env = {**right, "LD_PRELOAD": harness.CLOCK_SHIM, "HOLDFAST_TEST_CLOCK_FILE": clock}
        self.server, said = self.serve("--listen", f"127.0.0.1:{self.port}", "--data", self.data,
                                       "--clients-stopped")
        self.env = right
        self.assertNotEqual(said["restored"], "")
        self.assertGreater(token(), max(forgotten))

    def test_the_tools_tell_programs_the_same_facts(self):
        self.start()
        self.ok("acquire", "--ttl", "60s", "a")
        copy = self.path("copy")
        backup = json.loads(self.ok("server", "backup", self.data, copy, "--json").stdout)
        keys = {"journal_id", "term", "batches", "bytes", "shards", "locks", "holders", "waiters"}
        self.assertEqual(set(backup), keys)
        verified = json.loads(self.ok("server", "verify", "--json", copy).stdout)
        self.assertEqual(verified, backup)
        self.assertEqual(json.loads(self.ok("server", "verify", "--json", self.data).stdout)["holders"], 1)
        restored = json.loads(self.ok("server", "restore", "--json", copy, self.path("other")).stdout)
        self.assertEqual(set(restored), keys)
        self.assertEqual((restored["journal_id"], restored["locks"]), (backup["journal_id"], 1))
        done = self.holdfast("server", "verify", "--json", self.path("nowhere"))
        self.assertEqual((done.returncode, done.stdout), (125, ""))

    def test_verify_finds_damage(self):
        self.start()
        self.ok("acquire", "--ttl", "60s", "a-lock-with-a-long-name")
        said = self.ok("server", "verify", self.data).stdout
        self.assertIn("holders: 1", said)
        copy = self.path("copy")
        self.ok("server", "backup", self.data, copy)
        with open(copy, "r+b") as file:
            content = file.read()
            at = content.index(b"a-lock-with-a-long-name")
            file.seek(at)
            file.write(b"A")
        done = self.holdfast("server", "verify", copy)
        self.assertEqual(done.returncode, 125)
        self.assertIn("checksum differs. Restore a backup", done.stderr)

    def test_verify_finds_damage_to_the_database_itself(self):
        self.start()
        for number in range(6):
            self.ok("acquire", "--ttl", "60s", f"job-{number}")
        self.ok("server", "backup", self.data, self.path("copy"))
        with open(self.path("copy"), "rb") as file:
            content = file.read()
        for at in range(0, len(content), 128):
            if not any(content[at:at + 64]):
                continue
            with open(self.path("damaged"), "wb") as file:
                file.write(content[:at] + bytes(byte ^ 0x5a for byte in content[at:at + 64]) + content[at + 64:])
            done = self.holdfast("server", "verify", self.path("damaged"))
            if done.returncode == 0:  # Bytes that no record and no page counts on.
                self.assertIn("holders: 6", done.stdout, at)

    def test_what_cannot_be_is_refused_with_a_reason(self):
        self.start()
        copy = self.path("copy")
        self.ok("server", "backup", "sqlite:" + self.data, copy)
        for words, reason in ((("verify", self.path("nowhere")), "no journal"),
                              (("verify",), "FOLDER-OR-BACKUP"),
                              (("verify", "etcd://127.0.0.1:2379/team"), "etcdctl snapshot"),
                              (("backup", "etcd://127.0.0.1:2379/team", "x"), "etcdctl snapshot"),
                              (("restore", copy, "etcd://127.0.0.1:2379/team"), "etcdctl snapshot"),
                              (("backup", self.data), "FOLDER BACKUP"),
                              (("backup", self.data, copy), "is there already"),
                              (("backup", self.path("nowhere"), self.path("x")), "no journal"),
                              (("restore", copy, self.data), "has a journal"),
                              (("restore", self.path("nowhere"), self.path("y")), "no journal"),
                              (("mend", self.data),
                               "status, members, step-down, drain, verify, backup, restore or password")):
            with self.subTest(words=words):
                done = self.holdfast("server", *words)
                self.assertEqual(done.returncode, 125)
                self.assertIn(reason, done.stderr)


class StrangerTest(ServeCase):
    """Programs that are no clients of Holdfast's."""

    def setUp(self):
        super().setUp()
        self.start()

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        self.addCleanup(connection.close)
        return connection

    def ask(self, connection, *words):
        text = f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
        connection.sendall(text.encode())
        return connection.recv(65536).decode()

    def all_of(self, connection):
        """Until the server closes."""
        text = b""
        while chunk := connection.recv(65536):
            text += chunk
        return text.decode()

    def test_a_driver_of_redis_is_greeted(self):
        connection = self.connect()
        self.assertEqual(self.ask(connection, "PING"), "+PONG\r\n")
        self.assertTrue(self.ask(connection, "HELLO", "3").startswith("%7\r\n$6\r\nserver\r\n$8\r\nholdfast\r\n"))
        self.assertTrue(self.ask(connection, "HELLO", "2").startswith("*14\r\n"))
        self.assertTrue(self.ask(connection, "HELLO", "4").startswith("-NOPROTO"))
        self.assertEqual(self.ask(connection, "client", "setname", "me"), "+OK\r\n")
        self.assertEqual(self.ask(connection, "CLIENT", "GETNAME"), "$2\r\nme\r\n")
        self.assertEqual(self.ask(connection, "COMMAND"), "*0\r\n")
        self.assertIn("server:holdfast\r\n", self.ask(connection, "INFO"))
        self.assertEqual(self.ask(connection, "SELECT", "0"), "+OK\r\n")
        connection.sendall(b"*1\r\n$4\r\nQUIT\r\n")
        self.assertEqual(self.all_of(connection), "+OK\r\n")

    @unittest.skipUnless(shutil.which("redis-cli"), "SKIPPED: no redis-cli (package redis-tools)")
    def test_redis_cli_shows_locks_and_breaks_those_of_libraries(self):
        def cli(*words):
            done = subprocess.run(["redis-cli", "-p", str(self.port), *words], env=self.env, timeout=PATIENCE,
                                  capture_output=True, text=True, check=False)
            return done.stdout.strip()

        self.assertEqual(cli("SET", "theirs", "me", "NX", "PX", "60000"), "OK")
        self.holder("ours", ttl="60s")
        for name, shown in (("theirs", "me"), ("ours", "held by a client of Holdfast")):
            self.assertEqual((cli("EXISTS", name), cli("GET", name)), ("1", shown))
            left = int(cli("PTTL", name))
            self.assertTrue(20_000 < left <= 60_000, left)
        waiter = self.run_locked("theirs", "--", "echo", "had it")
        waiter.event("waiting")
        self.assertEqual(cli("DEL", "theirs"), "1")
        self.assertEqual((waiter.line(), waiter.status()), ("had it", 0))
        self.assertEqual((cli("DEL", "theirs"), cli("GET", "nothing"), cli("PTTL", "nothing")), ("0", "", "-2"))
        # Its holder must hear of it with a token and a reason (safety rule 60).
        self.assertIn("'holdfast break' ends its hold", cli("DEL", "ours"))
        self.assertEqual(cli("EXISTS", "ours"), "1")

    def test_every_other_command_is_refused_by_its_name(self):
        connection = self.connect()
        for words in (("DECR", "k"), ("PERSIST", "k"), ("MULTI",), ("WATCH", "k"), ("FLUSHALL",),
                      ("CONFIG", "GET", "*"), ("CLIENT", "TRACKING", "ON"), ("CLUSTER", "SLOTS"), ("WAITAOF", "0", "1", "0")):
            reply = self.ask(connection, *words)
            self.assertTrue(reply.startswith(f"-ERR unknown command '{words[0]}"), reply)
            self.assertEqual(reply.count("\r\n"), 1)
        # Of lock libraries' commands only what makes a lock.
        self.assertTrue(self.ask(connection, "SET", "k", "v").startswith("-ERR SET without NX"))
        self.assertTrue(self.ask(connection, "EVAL", "return 1", "0").startswith("-ERR the script "))
        self.assertTrue(self.ask(connection, "EVALSHA", "0" * 40, "0").startswith("-NOSCRIPT"))
        self.assertEqual(self.ask(connection, "EXISTS", "k"), ":0\r\n")
        self.assertTrue(self.ask(connection, "SELECT", "1").startswith("-ERR"))
        self.assertTrue(self.ask(connection, "AUTH", "x").startswith("-ERR AUTH"))
        self.assertIn("attach first", self.ask(connection, "HF1", "inspect", "1", "hf1:{a}"))
        self.assertTrue(self.ask(connection, "HF1", "attach", "0").startswith("+HF1 "))
        self.assertTrue(self.ask(connection, "HF1", "dance", "0").startswith("-ERR"))

    def test_what_is_not_the_protocol_ends_the_connection(self):
        for text in (b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02",
                     b"*1\r\n$-5\r\n", b"*100000000\r\n", b"*1\r\n$999999999\r\n", b"\0" * 2000):
            connection = self.connect()
            connection.sendall(text)
            try:
                reply = self.all_of(connection)
            except ConnectionResetError:  # There was more than it had read.
                continue
            self.assertTrue(reply.startswith("-ERR Protocol error"), reply)
            self.assertEqual(reply.count("\n"), 1)
        self.ok("run", "job", "--", "true")

    def test_a_redis_url_says_what_is_wrong(self):
        done = self.holdfast("ls", "--store", f"redis://127.0.0.1:{self.port}")
        self.assertEqual(done.returncode, 125)
        self.assertNotIn("Traceback", done.stderr)

    def test_a_crowd_of_idle_connections_costs_others_nothing(self):
        crowd = [self.connect() for _ in range(500)]
        for connection in crowd[:250]:
            connection.sendall(b"*2\r\n$3\r\nHF1\r\n$60")  # And no more.
        for connection in crowd[250:]:
            self.assertEqual(self.ask(connection, "PING"), "+PONG\r\n")
        self.ok("run", "job", "--", "true")
        # The half requests are not waited for.
        for connection in crowd[:250]:
            self.assertEqual(self.all_of(connection), "")
        self.assertEqual(self.ask(crowd[-1], "PING"), "+PONG\r\n")

    def test_replies_that_nobody_reads_are_not_gathered_without_end(self):
        connection = self.connect()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.assertEqual(self.ask(connection, "PING"), "+PONG\r\n")
        connection.setblocking(False)
        request = b"*2\r\n$4\r\nECHO\r\n$60000\r\n" + b"x" * 60000 + b"\r\n"
        most = 600 * len(request)  # The kernel's buffers of both ends may have 16 MB.
        sent = 0
        while sent < most:
            if not select.select([], [connection], [], 2)[1]:
                break  # The server reads no more.
            try:
                sent += connection.send((request * 4)[sent % len(request):][:65536])
            except BlockingIOError:
                continue
        self.assertLess(sent, most, "it was not stopped")
        with open(f"/proc/{self.server.pid}/status", encoding="ascii") as file:
            kib = int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))
        self.assertLess(kib, 150 * 1024)
        self.ok("run", "job", "--", "true")


if __name__ == "__main__":
    harness.main()
