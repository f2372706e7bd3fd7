"""Runs scenarios at once, as they mostly sleep; fails if one of them does.

Usage: run_together.py PROGRAM OUT SCENARIO=DURATION...
"""

import subprocess
import sys

SECONDS = 150


def main(program, out, *wanted):
    runs = []
    for scenario, _, duration in (each.partition("=") for each in wanted):
        command = [program, "run", "--quiet", "--duration", duration, "--out", out, scenario]
        runs.append((scenario, subprocess.Popen(command, stdout=subprocess.PIPE,
                                                stderr=subprocess.STDOUT, text=True)))
    failed = [] if runs else ["nothing was run"]
    for scenario, run in runs:
        try:
            said, _ = run.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            run.terminate()  # It clears away what it has started.
            said, _ = run.communicate()
        print(said, end="")
        if run.returncode != 0:
            failed.append(f"{scenario} ended with {run.returncode}")
    print("\n".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
