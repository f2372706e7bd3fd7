"""Runs the machine's tests once for each mistake of mutants.txt: each must make one of them fail.

Usage: run_mutants.py PROGRAM SOURCES [NUMBER]     NUMBER: only this one, with what the tests say
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from make_mutants import read_mutants

TIMEOUT = 20  # Seconds. A mistake that makes a test run for ever is caught.


def passes(program, number, output=subprocess.DEVNULL):
    environment = {**os.environ, "HOLDFAST_MUTANT": str(number), "HOLDFAST_SIM_SEEDS": "60"}
    try:
        return subprocess.run([program, "--gtest_fail_fast", "--gtest_brief=1"], env=environment,
                              stdout=output, stderr=output, timeout=TIMEOUT).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def main():
    program, sources = sys.argv[1], Path(sys.argv[2])
    if len(sys.argv) > 3:
        return 1 if passes(program, int(sys.argv[3]), output=None) else 0
    mutants = read_mutants(sources / "mutants" / "mutants.txt")
    if not passes(program, 0, output=None):
        print("the tests fail without a mistake")
        return 1
    with ThreadPoolExecutor(2) as pool:
        survived = list(pool.map(lambda mutant: passes(program, mutant[0]), mutants))
    for mutant, alive in zip(mutants, survived):
        if alive:
            print(f"not caught: {mutant[0]} {mutant[1]}: {mutant[2]}")
    print(f"{survived.count(False)} of {len(mutants)} mutants caught")
    return 1 if any(survived) else 0


if __name__ == "__main__":
    sys.exit(main())
