"""The page about the classic mistakes and the program that plays them agree.

Every exhibit is on the page, every `holdfast-lab exhibits NAME` in the documentation exists, and a
block after <!-- steps: NAME --> is what `holdfast-lab exhibits --steps NAME` prints: word for word,
but for the numbers. Without a Redis server the last is skipped (exit 77), unless
HOLDFAST_REQUIRE_REDIS is set. Usage: check_exhibits.py ROOT BIN
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import markdown

PAGE = Path("docs/guide/seven-ways-to-get-it-wrong.md")
SECONDS = 60
PERFORMANCES = 3  # A machine that stands still plays another history.
SKIPPED = 77

MENTION = re.compile(r"(?:`|\$ )holdfast-lab exhibits ([a-z][a-z-]*)")
STEPS = re.compile(r"<!-- steps: (\S+) -->")


def without_numbers(text):
    """Lines as they compare: numbers and the width of columns left out."""
    lines = (re.sub(r"\d+", "#", line) for line in text.splitlines())
    return [re.sub(r" {2,}", "  ", line.strip()) for line in lines if line.strip()]


def check_names(pages, exhibits):
    """`pages`: (path, text); the page itself must name all exhibits, each page only such."""
    problems = []
    for path, text in pages:
        named = set(MENTION.findall(text)) | set(STEPS.findall(text))
        problems += [f"{path}: there is no exhibit '{name}'" for name in sorted(named - exhibits)]
        if path == PAGE:
            problems += [f"{path}: the exhibit '{name}' is not on the page"
                         for name in sorted(exhibits - named)]
    return problems


def quoted_steps(text):
    """(line, exhibit, lines) of each block that quotes a history."""
    return [(line, match[1], without_numbers(body))
            for line, before, body in markdown.blocks(text, "text")
            if (match := STEPS.search(before))]


def run(program, *arguments):
    return subprocess.run([program, "exhibits", *arguments], capture_output=True, text=True,
                          timeout=SECONDS, check=False)


def check_steps(program, text):
    problems = []
    for line, name, quoted in quoted_steps(text):
        played = ""
        for _ in range(PERFORMANCES):
            played = run(program, "--steps", name).stdout
            if without_numbers(played) == quoted:
                break
        else:
            problems.append(f"{PAGE}:{line}: `holdfast-lab exhibits --steps {name}` prints\n{played}")
    return problems


def main():
    root, program = Path(sys.argv[1]), str(Path(sys.argv[2]) / "holdfast-lab")
    pages = [(page, (root / page).read_text(encoding="utf-8")) for page in markdown.pages(root)]
    exhibits = {line.split()[0] for line in run(program, "--list").stdout.splitlines()}
    problems = check_names(pages, exhibits)
    text = dict(pages).get(PAGE, "")
    skipped = None
    if run(program, "--steps", "thread-id").returncode == 125:
        skipped = "no Redis server: the steps were not compared"
        if "HOLDFAST_REQUIRE_REDIS" in os.environ:
            problems.append(skipped)
    else:
        problems += check_steps(program, text)
    print("\n".join(problems))
    print(f"exhibits: {len(exhibits)} looked at, {len(problems)} problems")
    if problems or not exhibits:
        return 1
    if skipped:
        print(f"SKIPPED: {skipped}")
        return SKIPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
