"""What the program shows of a Once that has finished: no holder, an outcome."""

import json
import os
import subprocess
import unittest

from harness import PATIENCE, CliCase


class FinishedOnceTest(CliCase):
    def setUp(self):
        super().setUp()
        subprocess.run([os.environ["HOLDFAST_FINISH_ONCE"], self.env["HOLDFAST_STORE"], "pay/7",
                        "receipt 12\x1b"], check=True, timeout=PATIENCE)

    def names(self, *options):
        return [lock["name"] for lock in json.loads(self.holdfast("ls", "--json", *options).stdout)]

    def test_ls_leaves_it_out_and_says_so(self):
        done = self.holdfast("ls")
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertIn("1 outcome(s) of finished once-guards are not listed: --outcomes", done.stderr)
        self.holder("job")
        self.assertEqual(self.names(), ["job"])
        self.assertEqual(self.names("--outcomes"), ["job", "pay/7"])

    def test_ls_shows_it_when_asked_to(self):
        done = self.holdfast("ls", "--outcomes")
        self.assertEqual(done.stderr, "")
        self.assertRegex(done.stdout.splitlines()[1], r"^pay/7 +finished .* outcome: receipt 12\\x1b$")
        shown = json.loads(self.holdfast("ls", "--json", "--outcomes").stdout)
        self.assertEqual(shown[0]["outcome"], "receipt 12\x1b")

    def test_top_shows_who_works_only(self):
        self.holder("job")
        done = self.holdfast("top", "--once", "--json")
        self.assertEqual([lock["name"] for lock in json.loads(done.stdout)["locks"]], ["job"])

    def test_inspect_says_that_nobody_runs_under_it(self):
        done = self.holdfast("inspect", "pay/7")
        self.assertIn("finished: a once-guard, nobody runs under it", done.stdout)
        self.assertIn("receipt 12\\x1b", done.stdout)
        self.assertEqual(self.inspect("pay/7")["outcome"], "receipt 12\x1b")

    def test_a_lock_with_another_value_or_none_is_listed(self):
        self.run_locked("--value", "me", "boss", "--", "sleep", "60", verb="elect").event("started")
        self.holder("job")
        self.assertEqual(self.names(), ["boss", "job"])
        self.assertNotIn("outcome", self.inspect("boss"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
