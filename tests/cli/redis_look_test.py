"""What people are told who look at a Redis store in which, or with which, something is wrong."""

import json
import os
import re
import select
import signal
import subprocess
import time
import unittest

import redis_server
from harness import PATIENCE, PROGRAM
from redis_test import ROOT, RedisCase


class Watcher:
    """A command that stays connected; its lines on stdout and stderr can be awaited."""

    def __init__(self, case, *arguments):
        self.case = case
        self.text = ""
        self.process = subprocess.Popen([PROGRAM, *arguments], env=case.env, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        case.addCleanup(self.process.wait)
        case.addCleanup(self.process.kill)
        case.addCleanup(self.process.stdout.close)
        case.addCleanup(self.process.stdin.close)

    def read(self, seconds):
        if select.select([self.process.stdout], [], [], seconds)[0]:
            self.text += os.read(self.process.stdout.fileno(), 65536).decode(errors="replace")

    def until(self, *words):
        end = time.monotonic() + PATIENCE
        while not any(word in self.text for word in words):
            if time.monotonic() > end:
                self.case.fail(f"none of {words} in: {self.text}")
            self.read(0.2)


class DamageTest(RedisCase):
    DAMAGE = {"empty": ["SET", "hf1:{empty}", ""], "garbage": ["SET", "hf1:{garbage}", "nonsense"],
              "later": ["SET", "hf1:{later}", "2 held 1"], "list": ["RPUSH", "hf1:{list}", "x"]}

    def test_ls_names_what_it_cannot_read_and_does_not_end_with_0(self):
        self.ok("acquire", "--ttl", "60s", "good")
        for name, command in self.DAMAGE.items():
            with self.subTest(damage=name):
                self.server.ask(*command)
                done = self.holdfast("ls", "-q", name)
                self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
                self.assertIn(f"lock '{name}'", done.stderr)
                self.assertNotIn("nobody holds", done.stderr)
                for command in ("inspect", "acquire"):
                    done = self.holdfast(command, name)
                    self.assertEqual(done.returncode, 125, done.stdout)
                    self.assertNotIn("doctor", done.stderr)  # It says nothing of single locks.
        done = self.holdfast("ls", "--json")
        self.assertEqual(done.returncode, 1)
        self.assertEqual([lock["name"] for lock in json.loads(done.stdout)], ["good"])
        self.assertEqual(done.stderr.count("lock '"), len(self.DAMAGE), done.stderr)
        self.assertIn("the list is incomplete", done.stderr)
        self.ok("ls", "go")

    def test_a_watch_names_it_once(self):
        self.server.ask(*self.DAMAGE["garbage"])
        watch = Watcher(self, "watch")
        watch.until("lock 'garbage'")
        for _ in range(10):
            watch.read(0.2)
        self.assertEqual(watch.text.count("\n"), 1, watch.text)


class MistypedUrlTest(RedisCase):
    URLS = ("redis:/u:{}@h", "redis:u:{}@h", "redis//u:{}@h", "redis//:{}@h:6379", "//u:{}@h",
            "u:{}@h:6379", "redis://h?pasword={}", "redis://h;password={}", "redis://h/{}",
            "redis://h/0&password={}", "redis://h?db=0;password={}", "redis://h?ttl=3s;password={}",
            "redis://h?request_timeout=3s;password={}", "redis+unix:///s.sock&password={}",
            "redis://u:{}:h", "redis://h:{}", "redis://h?{}", "rediss://h&password={}")

    def test_its_password_is_not_shown(self):
        for url in self.URLS:
            for command in (["ls", "-v"], ["run", "--json", "-v"], ["doctor", "--json"]):
                with self.subTest(url=url, command=command):
                    done = self.holdfast(*command, "--store", url.format("s3cret"),
                                         *(["job", "--", "true"] if command[0] == "run" else []))
                    self.assertEqual(done.returncode, 125, done.stderr)
                    self.assertNotIn("s3cret", done.stdout + done.stderr)

    def test_a_port_without_tls_is_a_guess_that_is_told(self):
        done = self.holdfast("ls", "--store", "rediss" + self.store.removeprefix("redis"))
        self.assertEqual(done.returncode, 125)
        self.assertRegex(done.stderr, "speak (it|TLS) on this port")

    def test_options_that_are_no_secret_are_shown(self):
        with open(os.path.join(ROOT, "docs/stores/redis.md"), encoding="utf-8") as file:
            page = file.read()
        table = page[page.index("## Options"):page.index("## Rights")]
        options = set(re.findall(r"`(\w+)=(?:N|)`", table)) - {"password"}
        self.assertGreater(len(options), 8)
        for option in options:
            done = self.holdfast("ls", "-v", "--store", f"redis://127.0.0.1:1?{option}=1")
            self.assertIn(f"{option}=1 (from", done.stderr)


class CrowdTest(RedisCase):
    def test_ls_lists_more_than_ten_thousand_locks(self):
        count = 10_050
        owner = '{"owner":"o","host":"h","pid":1,"program":"p","reason":"","since":0}'
        fill = f"""local now = tonumber(redis.call('TIME')[1])
            for i = 1, {count} do
              redis.call('SET', 'hf1:{{many/' .. i .. '}}', string.format(
                '1 held %d000000 %016x 1 %032x %d000000 0 3600000000 %s', now, 1, i, now, ARGV[1]))
            end
            return 1"""
        self.assertEqual(self.server.ask("EVAL", fill, "0", owner), ":1\r\n")
        listed = self.json_of("ls", "--json", "--store", self.server.url("?request_timeout=60s"),
                              timeout=PATIENCE)
        self.assertEqual(len(listed), count)


class AwayTest(RedisCase):
    def test_a_watch_tells_that_the_server_is_away_and_back(self):
        self.see_away_and_back(Watcher(self, "watch"), Watcher(self, "watch", "-q"))

    def test_a_holder_tells_that_the_server_is_away_and_back(self):
        self.see_away_and_back(Watcher(self, "hold", "--ttl", "60s", "job"),
                               Watcher(self, "hold", "-q", "--ttl", "60s", "job2"))

    def see_away_and_back(self, loud, quiet):
        self.until_subscribed(2)
        self.server.kill()
        loud.until("the connection is lost")
        self.server.start()
        # Who holds may hear first that the server has forgotten the lock, and then ends.
        loud.until("connected again", "lost the lock")
        quiet.read(0.2)
        self.assertNotIn("connect", quiet.text)

    def until_subscribed(self, count):
        self.until(lambda: self.server.ask("PUBSUB", "CHANNELS", "hf1:*").startswith(f"*{count}"),
                   "all have subscribed")

    def test_a_lease_that_ended_while_the_watch_could_not_look_has_expired(self):
        watch = self.watch_of(["acquire", "--ttl", "2s", "job"])
        self.server.process.send_signal(signal.SIGSTOP)
        time.sleep(3)  # Longer than the lease: nothing tells that it has ended.
        self.server.process.send_signal(signal.SIGCONT)
        watch.until("expired", "released", "forgotten")
        self.assertIn("expired", watch.text)

    def test_what_the_server_forgot_was_not_released(self):
        watch = self.watch_of(["acquire", "--ttl", "60s", "job"])
        self.server.restart()
        watch.until("forgotten", "released", "expired")
        self.assertIn("forgotten", watch.text)

    def watch_of(self, command):
        watch = Watcher(self, "watch", "job")
        self.until_subscribed(1)
        for _ in range(100):  # Until it has begun to look there is nothing to await.
            lease = self.ok(*command).stdout.strip()
            watch.read(1)
            if "granted" in watch.text:
                return watch
            self.ok("release", lease)
        return self.fail(watch.text)

    def test_why_a_renewal_failed_is_told(self):
        hold = Watcher(self, "hold", "--ttl", "3s", "job")
        hold.until("held job")
        self.server.ask("SET", "hf1:{job}", "nonsense")
        hold.until("renewal failed", "lost the lock")
        self.assertRegex(hold.text, r"renewal failed, will try again.*: .*not Holdfast's")


if __name__ == "__main__":
    redis_server.main()
