"""Every ```cpp block of README.md and docs/ is a region of a compiled example, word for word; so
is the example in the comment on top of the header of each primitive.

The line before the block names it: <!-- snippet: examples/quickstart.cc#quick -->. A region of an
example lies between `// [region: quick]` and `// [end]`. A block that is not meant to be compiled
says <!-- snippet: none -->. In a header the line `// Example (examples/primitives.cc#latch):` names
the region that follows as `//   ` lines. Usage: check_snippets.py ROOT
"""

import re
import sys
import textwrap
from pathlib import Path

import markdown

NAME = re.compile(r"<!-- snippet: (?:(none)|(\S+)#(\S+)) -->")
EXAMPLE = re.compile(r"// Example \((\S+)#(\S+)\):$")
# What a client makes handles of: the header of a primitive is named after the maker.
MAKER = re.compile(r"^  [A-Z]\w+ (\w+)\(std::string (?:name|key)\b", re.MULTILINE)


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
    return check_quote(place, match[2], match[3], body, read_source)


def check_quote(place, path, name, body, read_source):
    source = read_source(path)
    if source is None:
        return [f"{place}: there is no {path}"]
    region = regions(source).get(name)
    if region is None:
        return [f"{place}: {path} has no region '{name}'"]
    if region != textwrap.dedent(body).strip("\n"):
        return [f"{place}: differs from region '{name}' of {path}, which is:\n{region}\n"]
    return []


def header_examples(text):
    """(line number, path, region, body) of each example in a comment."""
    lines, found = text.splitlines(), []
    for start, line in enumerate(lines, 1):
        match = EXAMPLE.match(line)
        if match:
            body = []
            for comment in lines[start:]:
                if comment != "//" and not comment.startswith("//   "):
                    break
                body.append(comment[5:])
            found.append((start, match[1], match[2], "\n".join(body)))
    return found


def check_headers(headers, read_source):
    """`headers`: texts by file name. The primitives are those that client.h makes."""
    problems, looked_at = [], 0
    for name, text in sorted(headers.items()):
        for line, path, region, body in header_examples(text):
            looked_at += 1
            problems += check_quote(f"{name}:{line}", path, region, body, read_source)
    makers = MAKER.findall(headers.get("client.h", ""))
    if not makers:
        problems.append("client.h: no primitives were found in it")
    problems += [f"{name}.h: has no line '// Example (examples/FILE#REGION):'" for name in makers
                 if not header_examples(headers.get(f"{name}.h", ""))]
    return problems, looked_at


def check_tree(root):
    def read_source(path):
        return (root / path).read_text(encoding="utf-8") if (root / path).exists() else None
    problems, looked_at = [], 0
    for page in markdown.pages(root):
        text = (root / page).read_text(encoding="utf-8")
        for line, before, body in markdown.blocks(text, "cpp"):
            looked_at += 1
            problems += check_block(f"{page}:{line}", before, body, read_source)
    headers = {path.name: path.read_text(encoding="utf-8")
               for path in (root / "include/holdfast").glob("*.h")}
    more, examples = check_headers(headers, read_source)
    return problems + more, looked_at + examples


def main():
    problems, looked_at = check_tree(Path(sys.argv[1]))
    print("\n".join(problems))
    print(f"snippets: {looked_at} looked at, {len(problems)} problems")
    return 1 if problems or looked_at == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
