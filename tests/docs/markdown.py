"""Reads fenced blocks out of the documentation."""

import re
from pathlib import Path


def pages(root):
    """README.md and everything in docs/, as paths relative to root."""
    found = [Path("README.md")] if (root / "README.md").exists() else []
    return found + sorted(p.relative_to(root) for p in (root / "docs").rglob("*.md"))


def blocks(text, language):
    """(line number, the line before the block, body) of each ```language block."""
    lines, found, index = text.splitlines(), [], 0
    while index < len(lines):
        if re.match(rf"```{language}\s*$", lines[index]):
            start = index + 1
            index = start
            while index < len(lines) and not lines[index].startswith("```"):
                index += 1
            before = next((l for l in reversed(lines[:start - 1]) if l.strip()), "")
            found.append((start, before, "\n".join(lines[start:index])))
        index += 1
    return found
