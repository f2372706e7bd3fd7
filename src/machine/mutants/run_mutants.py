"""Runs the machine's tests once for each mistake of mutants.txt: each must make one of them fail.

Usage: run_mutants.py PROGRAM SOURCES [NUMBER]     NUMBER: only this one, with what the tests say
"""

import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from make_mutants import read_mutants

# Seconds of the processor, of which the tests need half a one. A mistake that makes a test run for
# ever is caught.
LIMIT = 5


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))


def passes(program, number, output=subprocess.DEVNULL):
    environment = {**os.environ, "HOLDFAST_MUTANT": str(number), "HOLDFAST_SIM_SEEDS": "60"}
    return subprocess.run([program, "--gtest_fail_fast", "--gtest_brief=1"], env=environment,
                          stdout=output, stderr=output, preexec_fn=limit).returncode == 0


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
