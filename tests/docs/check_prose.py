#!/usr/bin/env python3
"""Reads pages as a newcomer does: are their sentences short, and do they begin with a subject?

Usage: check_prose.py ROOT [PAGE...]     without PAGE: those listed here. With --measure: figures only.

A page passes when the median of its sentences is under 16 words, nine tenths are under 28, none is
over 34, and no sentence opens with a bare "what", "who", "of", "those" or "that which". Code and
headings are no sentences; a piece of code in a line counts as one word. A cell of a table has any
length, but opens with none of these words either. Before its first section a page says what it is
for. A page of docs/design has at most 1,000 words. A new page has to be listed here, too.
"""

import re
import statistics
import sys
from pathlib import Path

# Folders and pages that were rewritten; the list only grows.
PAGES = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "bench/peers/README.md",
    "changes/README.md",
    "docs/cli.md",
    "docs/design",
    "docs/evidence.md",
    "docs/guide",
    "docs/ids-matrix.md",
    "docs/internals",
    "docs/performance-ids.md",
    "docs/release-notes",
    "docs/stores",
    "tests/README.md",
]
UNREAD = ["changes", "docs/performance.md"]  # Fragments of one sentence; figures of a script.
FEW = 12  # Sentences of a page whose lengths say nothing.

MEDIAN, NINTH, LONGEST = 16, 28, 34
OPENINGS = re.compile(r"(What|Who|Whose|Of|Those|That which|That who)\b")
CELL_OPENINGS = re.compile(r"(what|who|whose|of|those|that)\b", re.IGNORECASE)
TWO_PAGES = 1000  # Words, as `wc -w` counts them.
ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|No|approx)\.$")


def paragraphs(text):
    """[(line, text)] of what is prose: one entry for each paragraph and each item of a list."""
    found, current, start, fenced, comment = [], [], 0, False, False
    for number, line in enumerate(text.splitlines() + [""], 1):
        stripped = line.strip()
        if stripped.startswith(("```", "~~~")):
            fenced = not fenced
            stripped = ""
        elif fenced:
            stripped = ""
        if stripped.startswith("<!--"):
            comment = True
        if comment:
            comment = "-->" not in stripped
            stripped = ""
        if stripped.startswith(("|", "#", "<", "![", ">")) or not stripped:
            stripped = ""
        item = re.match(r"([-*+]|\d+\.)\s+", stripped)
        if (not stripped or item) and current:
            found.append((start, " ".join(current)))
            current = []
        if stripped:
            if not current:
                start = number
            current.append(stripped[item.end():] if item else stripped)
    return found


def cells(text):
    """[(line, text)] of the tables."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= line.strip().startswith(("```", "~~~"))
        if line.startswith("|") and not fenced:
            for cell in re.split(r"(?<!\\)\|", line)[1:-1]:
                yield number, plain(cell.strip())


def plain(text):
    text = re.sub(r"``.+?``|`[^`]+`", "code", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"[*_]{1,2}(\S.*?\S|\S)[*_]{1,2}", r"\1", text)


def sentences(text):
    """Also what a colon or a semicolon joins is one sentence: the reader has to keep it in mind."""
    begun = ""
    for piece in re.split(r"(?<=[.!?])[)\"']?\s+(?=[\"'(]?[A-Z0-9`]|code\b)", text):
        begun = f"{begun} {piece}".strip()
        if ABBREVIATIONS.search(begun):
            continue
        yield begun
        begun = ""
    if begun:
        yield begun


def words(sentence):
    return len(re.findall(r"[A-Za-z0-9][\w'’./%-]*", sentence))


def read(path):
    """[(line, sentence, words)]"""
    return [(line, sentence, words(sentence))
            for line, text in paragraphs(path.read_text(encoding="utf-8"))
            for sentence in sentences(plain(text)) if words(sentence) > 1]


def ninth(lengths):
    return sorted(lengths)[min(len(lengths) - 1, int(0.9 * len(lengths)))]


def problems(path, name):
    text = path.read_text(encoding="utf-8")
    for line, cell in cells(text):
        if CELL_OPENINGS.match(cell) and not cell.endswith("?"):
            yield f"{name}:{line}: a cell opens without a subject: {cell[:90]}"
    if not paragraphs(re.split(r"(?m)^## ", text)[0]):
        yield f"{name}: begins with a section: say first what the page is for"
    if name.startswith("docs/design/") and len(text.split()) > TWO_PAGES:
        yield f"{name}: has {len(text.split())} words, over {TWO_PAGES}: keep what decides"
    seen = read(path)
    if not seen:
        return
    lengths = [length for _, _, length in seen]
    if len(lengths) < FEW:
        lengths = [0]
    if statistics.median(lengths) >= MEDIAN:
        yield f"{name}: the median sentence has {statistics.median(lengths):g} words, not under {MEDIAN}"
    if ninth(lengths) >= NINTH:
        longest = sorted(seen, key=lambda entry: -entry[2])[:5]
        lines = ", ".join(str(line) for line, _, _ in longest)
        yield (f"{name}: one sentence in ten has {ninth(lengths)} words or more, not under {NINTH} "
               f"(the longest: lines {lines})")
    for line, sentence, length in seen:
        if length > LONGEST:
            yield f"{name}:{line}: {length} words, over {LONGEST}: {sentence[:90]}..."
        if OPENINGS.match(sentence) and not sentence.endswith("?"):
            yield f"{name}:{line}: opens without a subject: {sentence[:90]}"


def pages_of(root, names):
    for name in names:
        path = root / name
        yield from sorted(path.glob("*.md")) if path.is_dir() else [path]


def unlisted(root, paths):
    """Those of `paths`, relative to `root`, that no entry of the lists covers."""
    listed = {str(page.relative_to(root)) for page in pages_of(root, PAGES)}
    return [path for path in paths if path not in listed and
            not any(path == each or path.startswith(each + "/") for each in UNREAD)]


def all_pages(root):
    """Every page but those of folders that the build or a tool makes."""
    for path in sorted(root.rglob("*.md")):
        name = str(path.relative_to(root))
        if not name.startswith(("build", ".")):
            yield name


def main():
    names = [name for name in sys.argv[2:] if not name.startswith("--")]
    root = Path(sys.argv[1]).resolve()
    pages = list(pages_of(root, names or PAGES))
    found = []
    for page in pages:
        name = str(page.relative_to(root))
        if "--measure" in sys.argv:
            lengths = [length for _, _, length in read(page)]
            if lengths:
                openings = sum("opens" in text for text in problems(page, name))
                print(f"{statistics.median(lengths):5g} {ninth(lengths):4} {max(lengths):4} {openings:4}  {name}")
            continue
        found += problems(page, name)
    if not names:
        found += [f"{name}: is not read: add it to PAGES" for name in unlisted(root, all_pages(root))]
    print("\n".join(found))
    if "--measure" not in sys.argv:
        print(f"prose: {len(pages)} pages read, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
