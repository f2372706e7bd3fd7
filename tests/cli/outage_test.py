"""Commands that begin while their store is away: they wait for it as for the lock."""

import json
import select
import signal
import socket
import subprocess
import time
import unittest

import harness
from harness import PATIENCE, stands_still
from redis_server import RedisServer, die_with_parent, server_program
from serve_members_test import Etcd
from serve_test import ServeCase

HELD_UP = "waiting for the store to be back"
VERBS = (["run", "job", "--", "true"], ["hold", "job"], ["acquire", "job"],
         ["elect", "--value", "me", "job", "--", "true"])


def is_connected_to(port):
    """Whether a socket of this host is connected to that port of 127.0.0.1."""
    with open("/proc/net/tcp", encoding="ascii") as file:
        sockets = [line.split() for line in file]
    return any(words[2] == f"0100007F:{port:04X}" and words[3] == "01" for words in sockets)


class OutageCase(ServeCase):
    def refused(self, verb, *options, within, **more):
        """One failed command; what it said."""
        begun = time.monotonic()
        done = self.holdfast(verb[0], *options, *verb[1:], timeout=PATIENCE + within, **more)
        self.assertEqual((done.returncode, done.stdout), (125, ""), (verb, options, done.stderr))
        self.assertLess(time.monotonic() - begun, within, (verb, options, done.stderr))
        return done.stderr

    def held_up(self, *options, verb=VERBS[0], **more):
        """A command that waits for its store."""
        running = harness.Running(self, [*options, *verb[1:]], verb=verb[0], **more)
        self.assertIn(HELD_UP, running.event("unavailable")["message"])
        return running

    def closed_port(self):
        """A port on which nobody listens, and which no other test's server is given meanwhile."""
        taken = socket.socket()
        self.addCleanup(taken.close)
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]

    def expect_done(self, running):
        self.assertEqual(running.status(), 0)
        self.assertEqual(running.errors().count(HELD_UP), 1, "it is told once")


class ServiceTest(OutageCase):
    def setUp(self):
        super().setUp()
        self.start()
        self.kill()

    def test_a_command_without_a_limit_goes_on_until_the_server_is_back(self):
        running = self.held_up()
        self.start()
        self.expect_done(running)

    def test_a_command_waits_for_as_long_as_it_says(self):
        running = self.held_up("--wait", "60s")
        self.start()
        self.expect_done(running)

    def test_a_nested_command_asks_what_is_held_around_it_when_the_server_is_back(self):
        self.start()
        outer = self.run_locked("job", "--ttl", "60s", "--", "sh", "-c", "echo $HOLDFAST_HELD; read line",
                                stdin=subprocess.PIPE)
        held = outer.line()
        self.kill()
        inner = self.held_up(env={**self.env, "HOLDFAST_HELD": held})
        self.start()
        self.assertEqual(inner.status(), 125)
        self.assertIn("a deadlock with itself", inner.errors())

    def test_a_wait_that_is_over_first_ends_with_125(self):
        for verb in VERBS:
            begun = time.monotonic()
            said = self.refused(verb, "--wait", "500ms", within=8)
            self.assertGreater(time.monotonic() - begun, 0.4, said)
            self.assertIn("Is it up and reachable?", said)

    def test_no_wait_fails_at_once(self):
        for verb in VERBS:
            self.assertNotIn(HELD_UP, self.refused(verb, "--no-wait", within=5))
        self.refused(VERBS[0], "--wait", "0", within=5)

    def test_a_url_cannot_lengthen_the_wait(self):
        url = f"{self.url},127.0.0.1:1?open_timeout=1h"
        for url in (url, url.replace("_", "%5F")):
            said = self.refused(VERBS[0], "--wait", "1s", within=8, env={**self.env, "HOLDFAST_STORE": url})
            self.assertIn("Is it up and reachable?", said)

    def test_what_waiting_cannot_mend_fails_at_once(self):
        self.start()
        for url, reason in ((self.url + "?no_option=1", "no_option"),
                            ("nostore://a", "nostore"),
                            (f"holdfast://eve@127.0.0.1:{self.port}", "log in")):
            env = {**self.env, "HOLDFAST_STORE": url, "HOLDFAST_SERVICE_PASSWORD": "wrong"}
            said = self.refused(VERBS[0], within=8, env=env)
            self.assertIn(reason, said)
            self.assertNotIn(HELD_UP, said)

    def test_a_signal_ends_the_wait(self):
        running = self.held_up()
        running.signal(signal.SIGTERM)
        self.assertEqual(running.status(), 128 + signal.SIGTERM)

    def test_a_waiter_is_told_that_its_server_has_another_journal(self):
        self.start()
        self.holder("job", ttl="60s")
        waiters = [self.run_locked(*wait, "job", "--", "true") for wait in ((), ("--wait", "1h"))]
        for waiter in waiters:
            waiter.event("waiting")
        self.kill()
        self.data = self.path("another")
        self.start()
        for waiter in waiters:
            self.assertEqual(waiter.status(), 125)
            self.assertIn("another lock service answers here", waiter.errors())
        self.ok("run", "--wait", "5s", "job", "--", "true")

    def test_whoever_watches_is_told_too(self):
        self.start()
        watchers = []
        for arguments in (("elect", "--observe", "-q", "job"), ("watch", "job")):
            watchers.append(subprocess.Popen(
                [harness.PROGRAM, *arguments], env=self.env, stdin=subprocess.DEVNULL, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=die_with_parent))
            self.addCleanup(self.end, watchers[-1])
        # Each has begun when it has told something.
        for watcher in watchers:
            while not select.select([watcher.stdout], [], [], 0.05)[0]:
                self.ok("run", "job", "--", "true")
        self.kill()
        self.data = self.path("another")
        self.start()
        for watcher in watchers:
            errors = watcher.communicate(timeout=PATIENCE)[1]
            self.assertEqual(watcher.returncode, 125, errors)
            self.assertIn("another lock service answers here", errors)

    def test_a_signal_is_told_and_ends_a_command_at_once_while_the_server_hangs(self):
        self.start()
        self.stop_server()
        try:
            running = harness.Running(self, ["job", "--", "true"], verb="run")
            self.until(lambda: is_connected_to(self.port), "it is connected")
            signalled = time.monotonic()
            running.signal(signal.SIGTERM)
            self.assertEqual(running.event("cancelled")["signal"], "TERM")
            self.assertEqual(running.status(), 128 + signal.SIGTERM)
            self.assertLess(time.monotonic() - signalled, 1, "nothing was asked for, and nothing is taken back")
        finally:
            self.server.send_signal(signal.SIGCONT)

    def stop_server(self):
        self.server.send_signal(signal.SIGSTOP)
        # The call returns before the last of its threads stands still.
        self.until(lambda: stands_still(self.server.pid), "the server stands still")

    def end_while_the_server_hangs(self, command, within):
        """What the command says after a SIGTERM. It says something in two seconds."""
        self.stop_server()
        try:
            signalled = time.monotonic()
            command.send_signal(signal.SIGTERM)
            first = command.stderr.readline()
            self.assertLess(time.monotonic() - signalled, 2, first)
            events, rest = command.communicate(timeout=PATIENCE)
            self.assertLess(time.monotonic() - signalled, within, first + rest)
        finally:
            self.server.send_signal(signal.SIGCONT)
        return first + rest, events

    def begin(self, *words):
        command = subprocess.Popen([harness.PROGRAM, *words], env=self.env, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for stream in (command.stdin, command.stdout, command.stderr):
            self.addCleanup(stream.close)
        self.addCleanup(command.wait)
        self.addCleanup(command.kill)
        return command

    def test_a_signal_ends_a_wait_in_the_queue_in_time_and_with_a_warning_while_the_server_hangs(self):
        self.start()
        self.holder("job", ttl="60s")
        waiters = lambda: len(self.inspect()["waiters"])
        for verb in VERBS:
            with self.subTest(verb=verb):
                self.until(lambda: waiters() == 0, "the queue is empty")
                waiter = self.begin(*verb)
                self.until(lambda: waiters() == 1, "it waits")
                said, _ = self.end_while_the_server_hangs(waiter, within=3.8)
                self.assertEqual(waiter.returncode, 128 + signal.SIGTERM, said)
                self.assertRegex(said, "waiting for store .* to take the request for 'job' back: for 1s more at most\n")
                self.assertIn("the lock may be held for up to one more ttl", said)

    def test_a_holder_says_that_its_release_is_not_answered(self):
        self.start()
        holder = self.begin("hold", "--json", "job")
        self.assertEqual(json.loads(holder.stdout.readline())["event"], "acquired")
        said, events = self.end_while_the_server_hangs(holder, within=10)
        self.assertEqual(holder.returncode, 125, said)
        self.assertRegex(said, "waiting for store .* to take 'job' back: until its lease ends, in .* at most\n")
        self.assertEqual([json.loads(line)["event"] for line in events.splitlines()], ["error"])


class OtherStoresTest(OutageCase):
    @unittest.skipUnless(server_program(), "there is no redis-server")
    def test_redis_is_waited_for_in_the_same_way(self):
        server = RedisServer(self)
        self.env["HOLDFAST_STORE"] = server.url()
        self.ok("run", "job", "--", "true")
        server.kill()
        running = self.held_up("--wait", "60s")
        server.start()
        self.expect_done(running)

    def test_a_store_that_is_asked_by_the_first_request_is_waited_for_too(self):
        self.env["HOLDFAST_STORE"] = f"consul://127.0.0.1:{self.closed_port()}"
        running = self.held_up()
        running.signal(signal.SIGTERM)
        self.assertEqual(running.status(), 128 + signal.SIGTERM)

    def test_a_store_that_never_comes_is_given_up_after_a_minute(self):
        self.env["HOLDFAST_STORE"] = f"redis://127.0.0.1:{self.closed_port()}"
        begun = time.monotonic()
        self.assertIn(HELD_UP, self.refused(VERBS[0], within=80))
        self.assertGreater(time.monotonic() - begun, 55)

    def test_a_file_that_cannot_be_opened_fails_at_once(self):
        self.env["HOLDFAST_STORE"] = "sqlite:///dev/null/locks.db"
        self.assertNotIn(HELD_UP, self.refused(VERBS[0], within=8))


# The lease of leadership is longer than a client takes to open, or a request.
class TakeOverTest(OutageCase):
    def lead(self, shards):
        etcd = Etcd()
        self.addCleanup(etcd.stop)
        self.env["HOLDFAST_ETCD_PASSWORD"] = etcd.facts["secret"]
        self.servers = {}
        for _ in range(3):
            server, said = self.serve("--listen", "127.0.0.1:0", "--journal", etcd.journal("15s"),
                                      "--shards", shards)
            self.servers[said["address"]] = server
        self.env["HOLDFAST_STORE"] = "holdfast://" + ",".join(self.servers)
        self.ok("run", "job", "--", "true")
        return etcd

    def test_a_command_that_does_not_wait_says_what_does_not_answer_and_who_tells_more(self):
        etcd = self.lead("1")
        etcd.signal(signal.SIGSTOP)
        try:
            self.until(lambda: stands_still(etcd.facts["pid"]), "etcd stands still")
            said = self.refused(VERBS[0], "--no-wait", within=20)
        finally:
            etcd.signal(signal.SIGCONT)
        self.assertIn("the store does not answer, and did not confirm that the request was taken back", said)
        self.assertIn("'holdfast server status' tells whether its servers and their journal answer", said)

    def leader(self):
        for address in self.servers:
            done = self.holdfast("server", "status", "--json", f"holdfast://{address}", timeout=PATIENCE)
            if done.returncode == 0 and json.loads(done.stdout)["servers"][0]["leads"]:
                return address
        return None

    def test_a_command_that_begins_after_a_kill_of_the_leader_waits_for_the_next(self):
        self.lead("1")
        self.servers[self.leader()].kill()
        begun = time.monotonic()
        self.assertIn("was last seen leading", self.refused(VERBS[0], "--wait", "1s", within=8))
        running = self.held_up()
        self.expect_done(running)
        self.assertGreater(time.monotonic() - begun, 8, "nobody led meanwhile")

    def test_so_does_one_whose_shard_alone_has_no_leader(self):
        self.lead("8")
        next(iter(self.servers.values())).kill()
        for i in range(12):
            done = self.ok("run", f"job-{i}", "--", "true")
            self.assertLessEqual(done.stderr.count(HELD_UP), 1)


if __name__ == "__main__":
    harness.main()
