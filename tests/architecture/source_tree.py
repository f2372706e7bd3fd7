"""What the architecture tests share: finding files, stripping comments, reporting."""

import os
import re
import sys
from pathlib import Path

SKIPPED_FOLDERS = {".git", "build", ".cache", "__pycache__", "corpus"}


def files(root, suffixes, under=(), plain_names=False):
    """The files of the tree with one of the suffixes (and, on demand, those without any, like
    scripts), sorted, as paths relative to root."""
    found = []
    for base in [root / folder for folder in under] or [root]:
        for folder, folders, names in os.walk(base):
            # A fuzzer's corpus holds whatever bytes it likes.
            folders[:] = sorted(f for f in folders
                                if f not in SKIPPED_FOLDERS)
            for name in names:
                path = Path(folder) / name
                wanted = name.endswith(suffixes) or (plain_names and "." not in name)
                if wanted and path.is_file() and not path.is_symlink():
                    found.append(path.relative_to(root))
    return sorted(found)


def read(path):
    return path.read_text(encoding="utf-8")


def strip_comments(text, keep_strings=True):
    """Blanks comments (and the insides of strings, on demand), keeping the line structure."""
    token = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'',
        re.DOTALL)

    def blank(match):
        piece = match.group(0)
        if piece.startswith("/"):
            return re.sub(r"[^\n]", " ", piece)
        return piece if keep_strings else '"' + re.sub(r"[^\n]", " ", piece[1:-1]) + '"'

    # Digit separators (10'000) are no character literals.
    return token.sub(blank, re.sub(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])", "_", text))


def finish(what, problems, looked_at):
    """Prints the verdict and ends the program. Having looked at nothing is a failure."""
    for problem in problems:
        print(problem)
    if looked_at == 0:
        print(f"{what}: looked at nothing; is the root right?")
        sys.exit(1)
    print(f"{what}: {looked_at} looked at, {len(problems)} problems")
    sys.exit(1 if problems else 0)
