"""Runs scenarios at once, as they mostly sleep; fails if one of them does.

Ends with 77 when all went well but for those that need a server that is not installed (1 where
HOLDFAST_REQUIRE_REDIS is set).
Usage: run_together.py PROGRAM OUT SCENARIO=DURATION...
"""

import glob
import os
import re
import shutil
import subprocess
import sys

SECONDS = 150
NOT_INSTALLED = re.compile(r"\S+ of the topology '\w+' is not installed")
SKIPPED = 77


def main(program, out, *wanted):
    # What earlier calls kept would stay for ever beside what this one keeps.
    for scenario in wanted:
        with open(scenario.partition("=")[0], encoding="utf-8") as file:
            name = re.search(r'^name *= *"([\w.-]+)"', file.read(), re.MULTILINE)[1]
        for old in glob.glob(os.path.join(glob.escape(out), name + "-[0-9]*")):
            shutil.rmtree(old)
    runs = []
    for scenario, _, duration in (each.partition("=") for each in wanted):
        command = [program, "run", "--quiet", "--duration", duration, "--out", out, scenario]
        runs.append((scenario, subprocess.Popen(command, stdout=subprocess.PIPE,
                                                stderr=subprocess.STDOUT, text=True)))
    failed = [] if runs else ["nothing was run"]
    skipped = []
    for scenario, run in runs:
        try:
            said, _ = run.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            run.terminate()  # It clears away what it has started.
            said, _ = run.communicate()
        print(said, end="")
        missing = NOT_INSTALLED.search(said)
        if missing and "HOLDFAST_REQUIRE_REDIS" not in os.environ:
            skipped.append(f"SKIPPED: {scenario}: {missing[0]}")
        elif run.returncode != 0:
            failed.append(f"{scenario} ended with {run.returncode}")
    print("\n".join(failed + skipped))
    if failed:
        return 1
    return SKIPPED if skipped else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
