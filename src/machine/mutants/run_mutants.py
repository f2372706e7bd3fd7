"""Runs the machine's tests once for each mistake of mutants.txt: each must make one of them fail.
The simulation must name the seed also when it dies of one.

Usage: run_mutants.py PROGRAM SOURCES [NUMBER]     NUMBER: only this one, with what the tests say
"""

import os
import re
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from make_mutants import read_mutants

# Seconds of the processor, of which the tests need half a one. A mistake that makes a test run for
# ever is caught.
LIMIT = 2


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))


def passes(program, number, output=subprocess.DEVNULL):
    environment = {**os.environ, "HOLDFAST_MUTANT": str(number), "HOLDFAST_SIM_SEEDS": "60"}
    return subprocess.run([program, "--gtest_fail_fast", "--gtest_brief=1"], env=environment,
                          stdout=output, stderr=output, preexec_fn=limit).returncode == 0


def simulate(program, seeds):
    """What the simulation says of the first mistake: two hold, so an invariant aborts."""
    return subprocess.run([program, "--gtest_filter=LockMachineSim.*"], preexec_fn=limit, text=True,
                          env={**os.environ, "HOLDFAST_MUTANT": "1", **seeds}, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout


def names_its_seed(program):
    said = simulate(program, {"HOLDFAST_SIM_SEEDS": "60"})
    seed = re.search(r"replay: HOLDFAST_SIM_SEED=(\d+) ", said)
    broken = re.search(r"broken invariant: .*", said)
    if not seed or not broken:
        print(f"no seed to replay, or no broken invariant, in:\n{said}")
        return False
    again = simulate(program, {"HOLDFAST_SIM_SEED": seed[1]})
    if broken[0] not in again:
        print(f"seed {seed[1]} does not replay '{broken[0]}':\n{again}")
    return broken[0] in again


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
    return 1 if not names_its_seed(program) or any(survived) else 0


if __name__ == "__main__":
    sys.exit(main())
