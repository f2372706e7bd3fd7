"""Compares the declarations of include/holdfast with tests/architecture/public_api.golden.

The golden file is the public API without comments, one declaration a line: a change of it is a
change of the contract with users, and is to be seen in review. HOLDFAST_UPDATE_GOLDEN=1 rewrites
it. Usage: check_public_api.py ROOT
"""

import difflib
import os
import re
import sys
from pathlib import Path

import source_tree


TYPE = re.compile(r"^(?:template ?<.*> ?)?(namespace|class|struct|enum|union)\b")


def closing_brace(code, start):
    """The index of the brace that closes the one at `start`."""
    depth = 0
    for index in range(start, len(code)):
        depth += {"{": 1, "}": -1}.get(code[index], 0)
        if depth == 0:
            return index
    return len(code) - 1


def scan(code, depth, found, visible=True):
    """Appends the declarations in `code`: types are opened, bodies of functions are left out."""
    statement, index, is_type = "", 0, False
    while index < len(code):
        char = code[index]
        access = re.match(r"(public|private|protected) ?:(?!:)", code[index:])
        if access and not statement.strip():
            visible = access[1] != "private"
            index += access.end()
            continue
        if char == "{":
            end = closing_brace(code, index)
            inside, index = code[index + 1:end], end + 1
            is_type = TYPE.match(statement.strip()) is not None
            is_body = not is_type and re.search(r"\)[^=]*$|\boperator\b", statement)
            if is_type and visible:
                found.append("  " * depth + statement.strip() + " {")
                if re.search(r"\benum\b", statement):
                    found += ["  " * (depth + 1) + e.strip() for e in inside.split(",") if e.strip()]
                else:
                    is_class = re.search(r"(^|> ?)class\b", statement.strip()) is not None
                    scan(inside, depth + 1, found, visible=not is_class)
                found.append("  " * depth + "}")
            elif is_body and statement.count("(") == statement.count(")"):
                if visible:
                    # Neither the body nor a constructor's list of members is API.
                    head = re.sub(r"\) :.*$", ")", statement.strip())
                    found.append("  " * depth + head)
            else:  # An initializer: `= {}` or `member{}`.
                statement += "{" + inside.strip() + "}"
                continue
            statement = ""
            continue
        if char == ";":
            if visible and statement.strip():
                found.append("  " * depth + statement.strip() + ";")
            statement = ""
        else:
            statement += char
        index += 1


def declarations(text):
    """The visible declarations without comments, includes, bodies and layout, one a line."""
    code = source_tree.strip_comments(text)
    lines = [l for l in code.splitlines() if not re.match(r"\s*#\s*(include|pragma)\b", l)]
    macros = [re.sub(r"\s+", " ", l) for l in lines if re.match(r"\s*#\s*define\b", l)]
    lines = [l for l in lines if not l.lstrip().startswith("#")]
    found = []
    scan(re.sub(r"\s+", " ", " ".join(lines)), 0, found)
    return macros + found


def describe(root):
    lines, count = [], 0
    for path in source_tree.files(root, (".h",), under=("include/holdfast",)):
        count += 1
        lines += [f"=== {path}"] + declarations(source_tree.read(root / path)) + [""]
    return lines, count


def check(root):
    golden = root / "tests/architecture/public_api.golden"
    lines, count = describe(root)
    if count and os.environ.get("HOLDFAST_UPDATE_GOLDEN") == "1":
        golden.write_text("\n".join(lines) + "\n", encoding="utf-8")
    expected = source_tree.read(golden).rstrip("\n").split("\n") if golden.exists() else []
    difference = list(difflib.unified_diff(
        expected, "\n".join(lines).rstrip("\n").split("\n"), "public_api.golden", "include/holdfast",
        lineterm="", n=2))
    if difference:
        difference.append("The public API changed. If that is meant: HOLDFAST_UPDATE_GOLDEN=1 "
                          "python3 tests/architecture/check_public_api.py . ; and add a fragment "
                          "to changes/.")
    return difference, count


if __name__ == "__main__":
    source_tree.finish("public API", *check(Path(sys.argv[1])))
