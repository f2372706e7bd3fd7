"""The commands on the SQL stores with ?recipe=: what another program's form of a lock can do, and a
refusal with a reason where it cannot. On a real server of the kind in HOLDFAST_TEST_STORE."""

import signal
import subprocess
import unittest

import harness
import stores_test
from stores_test import STORE, StoreCase

RECIPES = {"postgres": ["advisory", "advisory-xact"], "mysql": ["get-lock", "for-update", "row"]}


class RecipeTest(StoreCase):
    def on_each(self):
        for recipe in RECIPES[STORE]:
            self.env["HOLDFAST_STORE"] = self.store = stores_test.SERVER.url(
                f"&recipe={recipe}&session=2s")
            yield recipe

    def test_two_programs_contend_and_the_second_follows_the_first(self):
        for _ in self.on_each():
            first = self.run_locked("job", "--", "sh", "-c", "read line; exit 7",
                                    stdin=subprocess.PIPE)
            first.event("started")
            for limit in (["--no-wait"], ["--wait", "100ms"]):
                done = self.holdfast("run", *limit, "job", "--", "true")
                self.assertEqual(done.returncode, 124, done.stderr)
                self.assertIn("'job'", done.stderr)
            second = self.run_locked("job", "--", "true")
            second.event("waiting")
            first.process.stdin.close()
            self.assertEqual(first.status(), 7)
            second.event("acquired")
            self.assertEqual(second.status(), 0)

    def test_a_program_that_is_killed_frees_the_lock_with_its_session_or_its_lease(self):
        for _ in self.on_each():
            holder = self.run_locked("--ttl", "2s", "job", "--", "sleep", "60")
            holder.event("started")
            holder.signal(signal.SIGKILL)
            holder.status()
            self.ok("run", "--wait", "30s", "job", "--", "true")

    def test_a_session_shorter_than_the_lease_that_is_set_by_default_holds(self):
        for _ in self.on_each():
            self.ok("run", "job", "--", "sleep", "3")

    def test_doctor_says_that_the_recipe_takes_a_guarantee_away(self):
        for _ in self.on_each():
            done = self.holdfast("doctor", "--require", "fenced")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("this one does without recipe= in its URL; these do", done.stderr)
            self.assertNotRegex(done.stderr, rf"these do[^:]*:.*\b{STORE}\b")

    def test_looking_tells_what_the_form_knows(self):
        for recipe in self.on_each():
            if recipe == "for-update":
                self.assertIn("does not tell who has a row locked", self.refused("inspect", "job"))
                continue
            name = f"looked at {recipe}"  # Both forms of advisory locks have one set of keys.
            self.assertFalse(self.inspect(name)["held"])
            self.holder(name)
            seen = self.inspect(name)
            self.assertTrue(seen["held"])
            self.assertEqual((seen["token"], len(seen["holders"])), (None, 1))
            self.assertEqual(seen["time_left_ms"] is not None, recipe == "row")
            self.assertIn(f"{name}: held", self.ok("inspect", name).stdout)

    def test_what_the_other_programs_do_not_know_is_refused_by_name(self):
        for _ in self.on_each():
            for words in (["ls"], ["top", "--once"], ["break", "job", "--token", "1"],
                          ["run", "--shared", "job", "--", "true"],
                          ["run", "--permits", "1/2", "job", "--", "true"]):
                self.assertIn("recipe=", self.refused(*words), words)

    def test_doctor_warns_of_what_the_form_lacks(self):
        for _ in self.on_each():
            report = self.ok("doctor").stdout
            self.assertRegex(report, r"(?m)^warning +recipe .*no fencing tokens")
            for lacking in ("fenced", "fair"):
                done = self.holdfast("doctor", "-q", "--require", lacking)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(f"'{lacking}'", done.stderr)


def setUpModule():
    stores_test.SERVER = stores_test.Server()
    unittest.addModuleCleanup(stores_test.SERVER.stop)


if __name__ == "__main__":
    harness.main()
