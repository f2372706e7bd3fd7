"""Compares the glossary with the tree: the code names that it gives exist, and the words that it
replaces are gone, except those of a list that can only get shorter."""

import re
import sys
from pathlib import Path

GLOSSARY = "docs/internals/glossary.md"
EXCEPTIONS = "tests/docs/glossary_exceptions.txt"
REPLACED = "## Words that were replaced"
CODE_FOLDERS = ("src", "include", "lab")
TYPE = re.compile(r"^[ \t]*(?:template <.*> )?(?:class|struct|enum class)"
                  r"(?: \[\[\w+\]\])?(?: HOLDFAST_\w+(?:\([^)]*\))?)? (\w+) *"
                  r"(?:final *)?[:{]", re.MULTILINE)


def prose(text):
    """A page without its code and the addresses of its links."""
    text = re.sub(r"(?ms)^```.*?^```", "", text)
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "", text))


def rows_of(text):
    """The cells of every table row, without headings and rules."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in text.splitlines() if line.startswith("|")]
    return [row for row in rows if row[0] not in ("word", "instead of") and set(row[0]) != {"-"}]


def code_names(glossary):
    """Names that the tables of terms give in their last column."""
    terms = glossary.split(REPLACED)[0]
    return [name for row in rows_of(terms) if len(row) == 3
            for name in re.findall(r"`(\w+)`", row[2])]


def replaced_words(glossary):
    """(type names, words of pages) that are not used any more."""
    types, words = [], []
    for row in rows_of(glossary.split(REPLACED)[1]):
        names = re.findall(r"`(\w+)`", row[0])
        types += names
        words += [] if names else row[0].split(", ")
    return types, words


def camel_words(name):
    return re.findall(r"[A-Z][a-z0-9]*", name)


def contains_type(name, replaced):
    """Whether one of the replaced names stands in a type's name as whole words."""
    parts = "-".join(camel_words(name))
    return any(re.search(rf"(^|-){'-'.join(camel_words(each))}(-|$)", parts) for each in replaced)


def replaced_uses(path, text, types, words):
    """What one file still says of the replaced words, as lines of the list of exceptions."""
    if path.endswith(".md"):
        said = prose(text)
        found = [word for word in words
                 if re.search(rf"(?i)(?<![\w-]){re.escape(word)}(?![\w-])", said)]
    else:
        found = [name for name in TYPE.findall(text) if contains_type(name, types)]
    return [f"{path}: {each}" for each in found]


def problems_of(uses, exceptions):
    new = [f"{use}: the glossary has another word for it" for use in uses if use not in exceptions]
    return new + [f"{EXCEPTIONS}: '{each}' is no longer needed: remove the line"
                  for each in exceptions if each not in uses]


def source_files(root):
    return [path for folder in CODE_FOLDERS for path in sorted((root / folder).rglob("*"))
            if path.suffix in (".h", ".cc")]


def pages(root):
    """Pages that readers open; not the record of what happened."""
    return [path for path in sorted(root.glob("*.md")) + sorted((root / "docs").rglob("*.md")) +
            [root / "tests/README.md"] if path.name not in ("track-record.md", "glossary.md")]


def main():
    root = Path(sys.argv[1])
    glossary = (root / GLOSSARY).read_text(encoding="utf-8")
    sources = {path: path.read_text(encoding="utf-8") for path in source_files(root)}
    known = set(re.findall(r"\w+", "\n".join(sources.values())))
    names = code_names(glossary)
    problems = [f"{GLOSSARY}: no source has the name '{name}'" for name in names
                if name not in known]
    types, words = replaced_words(glossary)
    texts = {**sources, **{path: path.read_text(encoding="utf-8") for path in pages(root)}}
    uses = [use for path, text in texts.items()
            for use in replaced_uses(str(path.relative_to(root)), text, types, words)]
    exceptions = [line for line in (root / EXCEPTIONS).read_text(encoding="utf-8").splitlines()
                  if line and not line.startswith("#")]
    problems += problems_of(uses, exceptions)
    if not names or not types or not words or not sources:
        problems.append(f"{GLOSSARY}: its tables are not as this test reads them")
    for problem in problems:
        print(problem)
    print(f"glossary: {len(names)} names and {len(texts)} files looked at, "
          f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
