"""Runs a program of mutants once for each mistake of its list: each must make a run fail.

Usage: run_mutants.py PROGRAM [NUMBER]     NUMBER: only this one, with what the run says
HOLDFAST_SIM_SEEDS: so many worlds for each (1500). HOLDFAST_MUTANT_LIMIT: seconds (120)
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "src" / "machine" / "mutants"))
from make_mutants import read_mutants  # noqa: E402

SEEDS = os.environ.get("HOLDFAST_SIM_SEEDS", "1500")
# A mistake that makes a run endless is caught.
LIMIT = int(os.environ.get("HOLDFAST_MUTANT_LIMIT", "120"))


def run(program, number):
    environment = {**os.environ, "HOLDFAST_MUTANT": str(number), "HOLDFAST_SIM_SEEDS": SEEDS}
    try:
        done = subprocess.run([program, "--gtest_brief=1"], env=environment, timeout=LIMIT,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except subprocess.TimeoutExpired:
        return False, "without an end"
    return done.returncode == 0, done.stdout.decode(errors="replace")


def main():
    program = sys.argv[1]
    if len(sys.argv) > 2:
        fine, said = run(program, int(sys.argv[2]))
        print(said)
        return 1 if fine else 0
    mutants = read_mutants(HERE / (Path(program).name + ".txt"))
    fine, said = run(program, 0)
    if not fine:
        print(f"the simulation fails without a mistake:\n{said}")
        return 1
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda mutant: run(program, mutant[0]), mutants))
    caught = 0
    for (number, file, words, *_), (alive, said) in zip(mutants, results):
        why = re.search(r'"(at .*)"', said)
        # Each test once, in the order in which they failed.
        names = dict.fromkeys(re.findall(r"\[  FAILED  \] (\w+\.\w+)", said))
        print(f"{'NOT CAUGHT' if alive else 'caught'}: {number} {file}: {words}" +
              (f" [{why[1]}]" if why else "") + (f" by {', '.join(names)}" if names else ""))
        caught += not alive
    print(f"{caught} of {len(mutants)} mutants caught")
    return 0 if caught == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main())
