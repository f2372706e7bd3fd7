"""Every public header says that it needs C++20, as the first error, in a compiler's older mode.

Usage: check_language.py SOURCE_DIR CXX
"""

import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor


def first_error(compiler, include, header):
    command = [compiler, "-std=c++17", "-Wfatal-errors", "-fsyntax-only", "-DASIO_STANDALONE",
               f"-I{include}", "-x", "c++", str(header)]
    done = subprocess.run(command, capture_output=True, text=True)
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    return errors[0] if errors else "no error at all"


def main():
    include = pathlib.Path(sys.argv[1]) / "include"
    headers = sorted(include.rglob("*.h"))
    with ThreadPoolExecutor(2) as workers:
        errors = list(workers.map(lambda one: first_error(sys.argv[2], include, one), headers))
    wrong = [(header, error) for header, error in zip(headers, errors)
             if "Holdfast needs C++20" not in error]
    for header, error in wrong:
        print(f"{header}: the first error does not name C++20: {error}")
    print(f"{len(headers)} headers, {len(wrong)} wrong")
    return 1 if wrong or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
