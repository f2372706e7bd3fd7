"""The commands on stores that are made of two: a Redis, and an SQLite file behind it."""

import json
import os
import subprocess
import time
from urllib.parse import quote

import redis_server
from harness import PATIENCE, PROGRAM, CliCase
from redis_server import RedisServer

STORE = os.environ.get("HOLDFAST_TEST_STORE", "hybrid")


class CompositeTest(CliCase):
    def setUp(self):
        super().setUp()
        self.redis = RedisServer(self)
        first, last = quote(self.redis.url(), safe=""), quote(self.store, safe="")
        self.url = {"hybrid": f"hybrid:?filter={first}&arbiter={last}",
                    "failover": f"failover:?chain={first}&chain={last}&authority=2s&patience=1s"
                                "&settled=1s"}[STORE]
        self.env["HOLDFAST_STORE"] = self.url

    def ok(self, *arguments):
        done = self.holdfast(*arguments, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_lock_is_seen_waited_for_and_broken(self):
        self.holder("job", "--reason", "because")
        info = json.loads(self.ok("inspect", "--json", "job"))
        self.assertEqual(len(info["holders"]), 1)
        self.assertEqual(info["reason"], "because")
        self.assertIn("job", self.ok("ls"))
        self.assertIn("job", self.ok("ls", "--json", "jo"))
        self.assertNotIn("..", self.ok("ls"), "names of the store's own are not shown")
        self.assertIn("job", self.ok("top", "--once"))
        done = self.holdfast("run", "--no-wait", "job", "--", "true")
        self.assertEqual(done.returncode, 124, done.stderr)
        waiter = self.run_locked("--ttl", "10s", "job", "--", "true")
        self.ok("break", "job", "--token", info["token"])
        self.assertEqual(waiter.status(), 0)
        self.assertNotIn("job", self.ok("ls"))

    def test_a_watch_tells_of_a_grant(self):
        self.ok("run", "--ttl", "10s", "first", "--", "true")  # The chain is in use.
        with subprocess.Popen([PROGRAM, "watch", "--json"], env=self.env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watch:
            self.addCleanup(watch.kill)
            holder = self.holder("seen")
            line = watch.stdout.readline()
            self.assertIn("seen", line)
            watch.kill()
            self.assertIsNotNone(holder)

    def test_doctor_examines_it_and_says_what_it_lacks(self):
        self.ok("run", "--ttl", "10s", "job", "--", "true")
        report = json.loads(self.ok("doctor", "--json"))
        self.assertEqual(report["guarantees"]["store"], STORE)
        done = self.holdfast("doctor", "-q", "--require", "multi")
        self.assertEqual(done.returncode, 1, done.stderr)

    def test_the_first_store_may_go(self):
        self.ok("run", "--ttl", "10s", "job", "--", "true")
        self.redis.kill()
        until = time.monotonic() + PATIENCE * 2
        done = self.holdfast("run", "--ttl", "10s", "--wait", "50s", "job", "--", "true",
                             timeout=60)
        while STORE == "failover" and done.returncode != 0 and time.monotonic() < until:
            done = self.holdfast("run", "--ttl", "10s", "--wait", "50s", "job", "--", "true",
                                 timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_no_message_has_the_password_of_an_inner_url(self):
        secret = self.url.replace("redis%3A%2F%2F", "redis%3A%2F%2Falice%3As3cret-Pw%40")
        for command in (["ls", "-v"], ["run", "-v", "x", "--", "env"], ["doctor"]):
            done = self.holdfast(*command, "--store", secret, timeout=60)
            self.assertNotIn("s3cret-Pw", done.stdout + done.stderr)

    def test_a_chain_is_shown_and_switched(self):
        if STORE != "failover":
            done = self.holdfast("failover", "status")
            self.assertEqual(done.returncode, 125)
            self.assertIn("is no chain", done.stderr)
            return
        self.assertIn("was never used", self.ok("failover", "status"))
        self.ok("run", "--ttl", "10s", "job", "--", "true")
        first = json.loads(self.ok("failover", "status", "--json"))
        self.assertEqual((first["place"], first["stores"], first["draining"]), (1, 2, False))
        second = json.loads(self.ok("failover", "switch", "--json"))
        self.assertEqual(second["place"], 2)
        self.assertGreater(second["epoch"], first["epoch"])
        self.ok("run", "--ttl", "10s", "job", "--", "true")
        self.assertIn("store 1 of 2", self.ok("failover", "return"))
        for wrong in (["switch", "3"], ["switch", "x"], ["back"], [], ["return", "2"]):
            done = self.holdfast("failover", *wrong)
            self.assertEqual(done.returncode, 125, wrong)


if __name__ == "__main__":
    redis_server.main()
