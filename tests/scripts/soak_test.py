"""Tests of scripts/soak with a make-believe lab, whose runs take no time."""

import json
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

# Writes the report that $STATE/report holds, with the seed that it is given. Where $STATE/stop
# names a process, it is interrupted.
LAB = '''#!/usr/bin/env bash
while [[ $# -gt 0 ]]; do
  case "$1" in --seed) seed=$2; shift ;; --out) out=$2; shift ;; esac
  scenario=$1
  shift
done
echo "$scenario $seed" >>"$STATE/calls"
if [[ -e $STATE/stop ]]; then kill -INT "$PPID"; fi
if [[ -e $STATE/hang ]]; then echo $$ >"$STATE/pid"; mkdir -p "$out/x-0"; exec sleep 1000; fi
if [[ -e $STATE/broken ]]; then echo "no server"; exit 125; fi
mkdir -p "$out/x-$seed"
sed "s/SEED/$seed/; s|SCENARIO|$scenario|" "$STATE/report" >"$out/x-$seed/report.json"
echo "ok $scenario"
exit "$(cat "$STATE/status")"
'''


def report(**changes):
    classes = ["malformed", "V0", "V1", "V2", "V3", "stuck", "orphaned", "lost wake-up"]
    seen = changes.pop("seen", {})
    may = changes.pop("may", [])
    return {
        "format": "holdfast-lab-report", "version": 1, "scenario": "SCENARIO", "seed": "SEED",
        "store": {"name": "redis", "version": "7.0.15"}, "holdfast": "0.1.0", "replay": "",
        "duration_ns": 10_000_000_000, "as_expected": True, "operations": 1000,
        "acquisitions": 400, "events": 5000, "refused_writes": 3, "faults": {"kill": 5, "pause": 2},
        "classes": [{"class": name, "expected": "may" if name in may else "none",
                     "seen": seen.get(name, 0), "as_expected": True} for name in classes],
        "violations": []} | changes


class SoakTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="holdfast-soak-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.record = self.folder / "evidence.jsonl"
        self.page = self.folder / "evidence.md"
        self.lab = self.folder / "lab"
        self.lab.write_text(LAB)
        self.lab.chmod(0o755)
        self.lab_runs(report())

    def lab_runs(self, made, status=0):
        (self.folder / "report").write_text(json.dumps(made))
        (self.folder / "status").write_text(str(status))

    def soak(self, *arguments):
        return subprocess.run(
            [ROOT / "scripts/soak", *arguments, "--record", self.record, "--page", self.page],
            env={"PATH": "/usr/bin:/bin", "STATE": str(self.folder)}, check=False, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)

    def run_times(self, times):
        return self.soak("run", "--runs", str(times), "--lab", self.lab, "--state",
                         self.folder / "state", "a.toml", "b.toml")

    def calls(self):
        return [line.split() for line in (self.folder / "calls").read_text().splitlines()]

    def lines(self):
        return self.record.read_text().splitlines()

    def test_scenarios_take_turns_with_fresh_seeds_and_every_run_is_recorded(self):
        result = self.run_times(3)
        self.assertEqual(result.returncode, 0, result.stdout)
        calls = self.calls()
        self.assertEqual([name for name, _ in calls], ["a.toml", "b.toml", "a.toml"])
        self.assertEqual(len({seed for _, seed in calls}), len(calls))
        recorded = [json.loads(line) for line in self.lines()]
        self.assertEqual([[run["scenario"], run["seed"]] for run in recorded], calls)
        self.assertEqual(self.soak("page", "--check").returncode, 0)

    def test_an_interrupted_soak_goes_on_where_it_stopped(self):
        (self.folder / "stop").touch()
        self.assertEqual(self.run_times(3).returncode, 1)
        self.assertEqual(len(self.calls()), 1)  # The run in hand came to its end.
        self.assertEqual(len(self.lines()), 1)
        (self.folder / "stop").unlink()
        again = self.run_times(3)
        self.assertIn("goes on", again.stdout)
        self.assertEqual([name for name, _ in self.calls()], ["a.toml", "b.toml", "a.toml"])
        self.assertEqual(len(self.lines()), 3)
        # When it is done, the next one begins anew.
        self.assertNotIn("goes on", self.run_times(3).stdout)

    def test_a_soak_that_is_killed_takes_its_lab_along_and_the_next_is_not_in_its_way(self):
        (self.folder / "hang").touch()
        soak = subprocess.Popen(
            [ROOT / "scripts/soak", "run", "--runs", "2", "--lab", self.lab, "--state",
             self.folder / "state", "--record", self.record, "--page", self.page, "a.toml"],
            env={"PATH": "/usr/bin:/bin", "STATE": str(self.folder)},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        written = self.folder / "pid"
        self.until(lambda: written.exists() and written.read_text().strip())
        soak.kill()
        soak.wait()
        lab = Path("/proc") / written.read_text().strip() / "stat"
        self.until(lambda: not lab.exists() or lab.read_text().split()[2] == "Z")
        (self.folder / "hang").unlink()
        again = self.run_times(2)
        self.assertEqual(again.returncode, 0, again.stdout)
        self.assertNotIn("FAILED", again.stdout)
        self.assertEqual(list((self.folder / "state").glob("run-*")), [])

    def until(self, fact):
        deadline = time.monotonic() + 60
        while not fact():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_hours_end_and_belong_to_another_soak_than_runs(self):
        (self.folder / "stop").touch()
        self.run_times(3)
        (self.folder / "stop").unlink()
        result = self.soak("run", "--hours", "0.00001", "--lab", self.lab, "--state",
                           self.folder / "state", "a.toml", "b.toml")
        self.assertNotIn("goes on", result.stdout)
        self.assertEqual(result.returncode, 0, result.stdout)

    def test_hours_are_a_positive_number(self):
        for hours in ("nan", "inf", "-1", "0", "x"):
            result = self.soak("run", f"--hours={hours}", "--lab", "/bin/false", "--state",
                               self.folder / "state")
            self.assertEqual(result.returncode, 2, hours)
            self.assertIn(f"invalid number of hours value: '{hours}'", result.stdout)

    def test_reports_of_a_matrix_are_added_once(self):
        for seed in ("1", "2"):
            kept = self.folder / "out" / f"cell-{seed}"
            kept.mkdir(parents=True)
            (kept / "report.json").write_text(json.dumps(report(
                scenario="redis-kill", seed=seed, as_expected=seed == "1", seen={"V1": 3})))
        failed = self.folder / "out" / "cell-3"
        failed.mkdir()
        (failed / "report.json").write_text(json.dumps(report(scenario="redis-kill", seed="3")))
        (failed / "node-1.log").touch()
        result = self.soak("add", self.folder / "out")
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertIn("3 runs added, 2 of them not as expected; 0 were known", result.stdout)
        self.assertIn("0 runs added", self.soak("add", self.folder / "out").stdout)
        recorded = [json.loads(line) for line in self.lines()]
        self.assertEqual([(run["scenario"], run["seed"], run["ok"]) for run in recorded],
                         [("redis-kill", "1", True), ("redis-kill", "2", False), ("redis-kill", "3", False)])
        self.assertIn("redis-kill", self.page.read_text())
        self.assertEqual(self.soak("page", "--check").returncode, 0)
        self.assertEqual(self.soak("add", self.folder / "state").returncode, 2)

    def test_a_record_names_the_commit_where_the_report_does(self):
        self.run_times(1)
        self.lab_runs(report(commit="0123456789ab-dirty"))
        self.run_times(1)
        before, after = (json.loads(line) for line in self.lines())
        self.assertNotIn("commit", before)
        self.assertEqual(after["commit"], "0123456789ab-dirty")
        self.assertIn("1 name the commit of their build", self.page.read_text())
        self.assertEqual(self.soak("page", "--check").returncode, 0)

    def test_what_was_not_as_expected_is_told_and_kept(self):
        self.lab_runs(report(as_expected=False, seen={"V1": 2}), status=1)
        result = self.run_times(1)
        self.assertEqual(result.returncode, 1)
        self.assertIn("1 not as expected", result.stdout)
        seed = self.calls()[0][1]
        self.assertTrue((self.folder / f"state/found/x-{seed}/report.json").exists())
        page = self.page.read_text()
        self.assertIn("| redis | 7.0.15 | kill | 5 | 1 | 1,000 | 0 | 0 | **2** | 0 |", page)
        self.assertIn(seed, page)

    def test_a_run_that_ended_badly_is_not_as_expected_whatever_its_report_says(self):
        self.lab_runs(report(), status=1)
        self.assertEqual(self.run_times(1).returncode, 1)
        self.assertFalse(json.loads(self.lines()[0])["ok"])

    def test_what_is_declared_is_counted_apart(self):
        self.lab_runs(report(seen={"V1": 7}, may=["V1"]))
        self.assertEqual(self.run_times(1).returncode, 0)
        self.assertIn("| 7 declared |", self.page.read_text())

    def test_what_was_not_as_expected_may_be_explained_and_is_not_forgotten(self):
        self.lab_runs(report(as_expected=False, seen={"V0": 2}, commit="0123456789ab"), status=1)
        self.run_times(1)
        name, seed = self.calls()[0]
        self.assertIn(f"| {name} | {seed} | 0123456789ab | V0 2 | **not explained** | - |", self.page.read_text())
        noted = ("note", name, seed, "--fault", "lab", "the judge took it for free")
        self.assertEqual(self.soak(*noted[:2], "17", *noted[3:]).returncode, 2)
        self.assertEqual(self.soak(*noted).returncode, 0)
        page = self.page.read_text()
        self.assertIn("| redis | 7.0.15 | kill | 5 | 1 | 1,000 | 0 | 2 misjudged |", page)
        self.assertIn("**1** of them are not as their scenario expects, 1 of which are explained", page)
        self.assertIn("| V0 2 | the lab: the judge took it for free | - |", page)
        self.assertEqual(self.soak("page", "--check").returncode, 0)
        kept = self.folder / "out" / "again"
        kept.mkdir(parents=True)
        (kept / "report.json").write_text(json.dumps(report(scenario=name, seed=seed, commit="ba9876543210")))
        self.assertIn("1 runs added", self.soak("add", self.folder / "out").stdout)
        self.assertIn("the judge took it for free | 1 of 1 as expected |", self.page.read_text())
        self.assertIn("2 histories", self.page.read_text())
        product = (*noted[:4], "product", "it was wrong")
        self.assertEqual(self.soak(*product).returncode, 0)
        self.assertIn("| 2 fixed |", self.page.read_text())
        (kept / "report.json").write_text(json.dumps(report(
            scenario=name, seed=seed, commit="cccccccccccc", as_expected=False, seen={"V0": 1})))
        self.soak("add", self.folder / "out")
        self.assertIn("| **3** |", self.page.read_text())

    def test_failures_of_the_lab_itself_count_nowhere(self):
        (self.folder / "broken").touch()
        result = self.run_times(9)
        self.assertEqual(result.returncode, 2)
        self.assertIn("no server", result.stdout)
        self.assertFalse(self.record.exists())

    def test_a_page_or_a_record_changed_by_hand_is_found_out(self):
        self.run_times(2)
        page, lines = self.page.read_text(), self.lines()
        self.page.write_text(page.replace("2,000", "9,000"))
        self.assertNotEqual(self.soak("page", "--check").returncode, 0)
        self.page.write_text(page)
        changed = [lines[0].replace('"ok":true', '"ok":false'), *lines[1:]]
        for wrong in (changed, lines[1:], [lines[1], lines[0], *lines[2:]], ["[]"], ["x"]):
            self.record.write_text("\n".join(wrong) + "\n")
            self.assertEqual(self.soak("page", "--check").returncode, 2, wrong)
        self.record.write_text("")
        self.assertEqual(self.soak("page", "--check").returncode, 2)


if __name__ == "__main__":
    unittest.main()
