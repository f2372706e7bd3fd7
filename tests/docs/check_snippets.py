"""Every ```cpp block of README.md and docs/ is a region of a compiled example, word for word.

The line before the block names it: <!-- snippet: examples/quickstart.cc#quick -->. A region of an
example lies between `// [region: quick]` and `// [end]`. A block that is not meant to be compiled
says <!-- snippet: none -->. Usage: check_snippets.py ROOT
"""

import re
import sys
import textwrap
from pathlib import Path

import markdown

NAME = re.compile(r"<!-- snippet: (?:(none)|(\S+)#(\S+)) -->")


def regions(text):
    """The regions of a source file by name, without their common indentation."""
    found = {}
    for name, body in re.findall(r"// \[region: (\S+)\]\n(.*?)[ \t]*// \[end\]", text, re.DOTALL):
        found[name] = textwrap.dedent(body).strip("\n")
    return found


def check_block(place, before, body, read_source):
    """`read_source(path)` gives the text of an example, or None."""
    match = NAME.search(before)
    if not match:
        return [f"{place}: a C++ block without <!-- snippet: FILE#REGION --> before it"]
    if match[1]:
        return []
    source = read_source(match[2])
    if source is None:
        return [f"{place}: there is no {match[2]}"]
    region = regions(source).get(match[3])
    if region is None:
        return [f"{place}: {match[2]} has no region '{match[3]}'"]
    if region != textwrap.dedent(body).strip("\n"):
        return [f"{place}: differs from region '{match[3]}' of {match[2]}, which is:\n{region}\n"]
    return []


def check_tree(root):
    def read_source(path):
        return (root / path).read_text(encoding="utf-8") if (root / path).exists() else None
    problems, looked_at = [], 0
    for page in markdown.pages(root):
        text = (root / page).read_text(encoding="utf-8")
        for line, before, body in markdown.blocks(text, "cpp"):
            looked_at += 1
            problems += check_block(f"{page}:{line}", before, body, read_source)
    return problems, looked_at


def main():
    problems, looked_at = check_tree(Path(sys.argv[1]))
    print("\n".join(problems))
    print(f"snippets: {looked_at} looked at, {len(problems)} problems")
    return 1 if problems or looked_at == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
