"""The commands on locks that other programs take in Redis, too: ?recipe=."""

import json
import os
import shutil
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "tests/docs"))

import check_console
import redis_server
from harness import PATIENCE, PROGRAM, CliCase
from redis_server import RedisServer

REDISSON = "8a1b0e5c-0000-4000-8000-000000000001:7"


class RecipeCase(CliCase):
    form = ""

    def setUp(self):
        super().setUp()
        self.server = RedisServer(self)
        self.env["HOLDFAST_STORE"] = self.server.url(f"?recipe={self.form}&session=2s")

    def ok(self, *arguments):
        done = self.holdfast(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def inspect(self):
        return json.loads(self.ok("inspect", "--json", "job"))

    def refused(self, *arguments):
        done = self.holdfast(*arguments)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        return done.stderr


class RedissonCommandTest(RecipeCase):
    form = "redisson"

    def hold_as_another(self):
        self.server.ask("HSET", "job", REDISSON, "2")
        self.server.ask("PEXPIRE", "job", "600000")

    def free_as_another(self):
        self.server.ask("DEL", "job")

    def owner_of_another(self):
        return REDISSON

    def test_run_holds_the_lock_while_the_command_runs(self):
        process = subprocess.Popen([PROGRAM, "run", "job", "--", "sh", "-c", "echo in; read line; exit 7"],
                                   env=os.environ | self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "in\n")
        self.assertTrue(self.inspect()["held"])
        self.assertEqual(self.server.ask("TYPE", "job").strip(),
                         "+hash" if self.form == "redisson" else "+string")
        self.assertEqual(self.holdfast("run", "--no-wait", "job", "--", "true").returncode, 124)
        process.communicate("\n", timeout=PATIENCE)
        self.assertEqual(process.returncode, 7)
        self.assertEqual(self.server.ask("EXISTS", "job").strip(), ":0")

    def test_what_another_program_holds_is_shown_and_left_alone(self):
        self.hold_as_another()
        self.assertEqual(self.holdfast("run", "--no-wait", "job", "--", "true").returncode, 124)
        self.assertEqual(self.holdfast("run", "--wait", "300ms", "job", "--", "true").returncode, 124)
        info = self.inspect()
        self.assertEqual((info["held"], info["owner"]), (True, self.owner_of_another()))
        self.assertGreater(info["time_left_ms"], 60_000)
        self.assertIn("no lock can be broken", self.refused("break", "job", "--token", "1"))
        self.assertEqual(self.inspect()["owner"], self.owner_of_another())
        self.free_as_another()
        self.ok("run", "--no-wait", "job", "--", "true")

    def test_what_the_form_cannot_do_is_refused_by_name(self):
        self.assertIn("holdfast inspect", self.refused("ls"))
        self.assertIn("fenced", self.refused("doctor", "-q", "--require", "fenced"))
        report = json.loads(self.ok("doctor", "--json"))
        self.assertIn("recipe", [one["topic"] for one in report["findings"]])
        self.assertFalse(report["guarantees"]["fenced"])
        self.refused("run", "--shared", "job", "--", "true")


class SetNxCommandTest(RedissonCommandTest):
    form = "setnx"

    def hold_as_another(self):
        self.server.ask("SET", "job", "deadbeef", "NX", "PX", "600000")

    def owner_of_another(self):
        return "deadbeef"


class PageTest(RecipeCase):
    form = "setnx"

    @unittest.skipUnless(shutil.which("redis-cli"), "SKIPPED: no redis-cli (package redis-tools)")
    def test_the_example_of_the_page_about_schemes_says_what_happens(self):
        with open(os.path.join(ROOT, "docs/guide/redis-schemes.md"), encoding="utf-8") as file:
            block = file.read().split("```console\n")[1].split("```")[0]
        steps = check_console.steps(block.replace("redis://locks.example:6379", self.server.url()))
        self.assertGreater(len(steps), 5)
        folder = self.path("page")
        os.mkdir(folder)
        env = os.environ | self.env
        env["PATH"] = os.path.dirname(os.path.abspath(PROGRAM)) + ":" + env["PATH"]
        for (command, expected), printed in zip(
                steps, check_console.run_all([step[0] for step in steps], folder, env)):
            with self.subTest(command=command):
                self.assertTrue(check_console.matches(expected, printed), printed)


if __name__ == "__main__":
    redis_server.main()
