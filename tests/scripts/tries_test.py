"""scripts/test-tries on the notes of made-up test programs."""

import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

LOG = """\
 1/3 Test  #1: alpha_test:1 ......................***Failed    2.00 sec
 1/3 Test  #1: alpha_test:1 ......................   Passed    1.00 sec
 2/3 Test  #2: beta_test .........................***Timeout  60.01 sec
 2/3 Test  #2: beta_test .........................   Passed    3.00 sec
 3/3 Test  #3: gamma_test ........................***Exception: SegFault  0.07 sec
50% tests passed, 1 tests failed out of 3
"""


class TriesTest(unittest.TestCase):
    def told(self, log, **notes):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for entry, text in notes.items():
                (folder / entry.replace("__", ":").replace("_ran", ".ran").replace("_failed", ".failed")).write_text(text)
            (folder / "log").write_text(log)
            return subprocess.run([ROOT / "scripts/test-tries", folder, folder / "log"], check=True,
                                  capture_output=True, text=True).stdout

    def test_a_case_that_failed_once_is_told_with_its_reason_and_load(self):
        told = self.told(LOG, alpha_test__1_ran="failed\tS.one\npassed\tS.two\npassed\tS.one\n",
                         alpha_test__1_failed="S.one\t2.5\t7.31\tx.cc:3: no event within 2 s\n")
        self.assertIn("cases: 2 passed, 1 failed tries, 0 skipped", told)
        self.assertIn("alpha_test:1: S.one: 1 failed\n    after 2.5 s, load 7.31: x.cc:3: no event within 2 s", told)
        self.assertNotIn("alpha_test:1: the whole entry", told)

    def test_a_program_that_left_no_note_is_told_as_a_whole(self):
        told = self.told(LOG)
        self.assertIn("beta_test: the whole entry: 1 failed\n    after 60.01 s, load ?: Timeout", told)
        self.assertIn("gamma_test: the whole entry: 1 failed\n    after 0.07 s, load ?: Exception:", told)

    def test_skipped_cases_are_listed(self):
        told = self.told("", alpha_test_ran="skipped\tS.one\tno server\npassed\tS.two\t\n"
                         "skipped\tS.three\tskipped by capability: it has no watch\n")
        self.assertIn("1 skipped, 1 of what a store cannot do\n== skipped:\n  alpha_test: S.one: no server\n", told)
        self.assertNotIn("first try", told)


if __name__ == "__main__":
    unittest.main()
