"""Runs the ```console blocks of README.md and docs/ and compares what they print.

A line that begins with `$ ` is a command (a line that begins with `> ` continues it); the lines
after it are its output. `...` stands for any text inside a line, a line of only `...` for any
number of lines. A command that ends with another code than 0 says so in a last line: `(exit 124)`.
The commands of one page share a shell and a folder of their own: HOME, XDG_STATE_HOME and the
working directory are fresh, PATH begins with the build's programs. A block after
<!-- console: not run --> is not run. Usage: check_console.py ROOT BIN
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import markdown

SECONDS = 60


def steps(body):
    """(command, expected output lines) of a block."""
    found = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.startswith("> ") and found and not found[-1][1]:
            found[-1] = (found[-1][0] + "\n" + line[2:], [])
        elif found:
            found[-1][1].append(line.rstrip())
    return found


def matches(expected, actual):
    """Whether output lines are as the page shows them."""
    pattern = ""
    for line in expected:
        if line == "...":
            pattern += r"(?:[^\n]*\n)*"
        else:
            pattern += ".*".join(re.escape(part) for part in line.split("...")) + r"[ \t]*\n"
    return re.fullmatch(pattern, "".join(line.rstrip() + "\n" for line in actual)) is not None


def run_all(commands, folder, environment):
    """For each command its output and, when it is not 0, its exit code as a last line. They share
    one shell, so that a variable of one line is there in the next."""
    results = Path(folder) / ".results"
    results.mkdir()
    script = "".join(
        f"{{ {command}\n}} </dev/null >{results}/{i}.out 2>&1\necho $? >{results}/{i}.code\n"
        for i, command in enumerate(commands))
    try:
        subprocess.run(["bash", "-c", script], cwd=folder, env=environment, check=False,
                       stdin=subprocess.DEVNULL, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        pass
    return [read_result(results, i) for i in range(len(commands))]


def read_result(results, number):
    out, code = results / f"{number}.out", results / f"{number}.code"
    lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    if not code.exists():
        return lines + [f"(no end: it, or one before it, took {SECONDS} s or ended the shell)"]
    value = code.read_text(encoding="utf-8").strip()
    return lines if value == "0" else lines + [f"(exit {value})"]


def fresh_environment(folder, programs):
    environment = {k: v for k, v in os.environ.items()
                   if not k.startswith(("HOLDFAST_", "XDG_"))}
    environment |= {"HOME": folder, "XDG_STATE_HOME": folder + "/.local/state",
                    "XDG_CONFIG_HOME": folder + "/.config", "LC_ALL": "C.UTF-8",
                    "PATH": f"{programs}:{os.environ['PATH']}",
                    # The default store of root is the system's; a test must not write there.
                    "HOLDFAST_STORE": f"sqlite://{folder}/locks.db"}
    return environment


def check_page(page, text, programs):
    """(problems, number of commands run) of one page."""
    shown = [(line, command, expected)
             for line, before, body in markdown.blocks(text, "console")
             if "console: not run" not in before for command, expected in steps(body)]
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        environment = fresh_environment(folder, programs)
        outputs = run_all([command for _, command, _ in shown], folder, environment)
    for (line, command, expected), actual in zip(shown, outputs):
        # A command that is shown without output says nothing about it, but must succeed.
        fine = matches(expected, actual) if expected else \
            not (actual and actual[-1].startswith(("(exit", "(no end")))
        if not fine:
            problems.append(f"{page}:{line}: $ {command}\nexpected:\n" + "\n".join(expected)
                            + "\ngot:\n" + "\n".join(actual))
    return problems, len(shown)


def main():
    root, programs = Path(sys.argv[1]), Path(sys.argv[2]).resolve()
    problems, looked_at = [], 0
    for page in markdown.pages(root):
        found, count = check_page(page, (root / page).read_text(encoding="utf-8"), programs)
        problems += found
        looked_at += count
    print("\n".join(problems))
    print(f"console: {looked_at} commands run, {len(problems)} problems")
    return 1 if problems or looked_at == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
