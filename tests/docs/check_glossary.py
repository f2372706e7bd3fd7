"""Compares the glossary with the tree: the code names that it gives exist, a type name that several
layers share has a row, and the words that it replaces are gone, except those of a list that can
only get shorter."""

import re
import sys
from pathlib import Path

GLOSSARY = "docs/internals/glossary.md"
RULES = "docs/internals/rules.md"
EXCEPTIONS = "tests/docs/glossary_exceptions.txt"
REPLACED = "## Words that were replaced"
CODE_FOLDERS = ("src", "include", "lab")
# A type name that this many layers define is a word of the house, unless everybody knows it.
SHARED = 3
EVERYDAY = {"Answer", "Applied", "Asked", "Asking", "Call", "Change", "Command", "Entry", "Event",
            "Events", "Fields", "Gate", "Gathered", "Held", "Impl", "Job", "Key", "Kind", "Known",
            "Limits", "Line", "List", "Lock", "Names", "Note", "Once", "Operation", "Options",
            "Outcome", "Part", "Pending", "Phase", "Question", "Read", "Reader", "Reply", "Request",
            "Row", "Sent", "Settings", "Slot", "State", "Statement", "Task", "Terms", "Turn",
            "Wait", "Waiter", "Write", "Writer"}
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


def layer_of(path):
    parts = path.split("/")
    return "/".join(parts[:3] if parts[1] == "stores" else parts[:2])


def shared_without_row(sources, names):
    """Type names of several layers of src/ for which the glossary has no row."""
    layers = {}
    for path, text in sources.items():
        if path.startswith("src/") and not re.search(r"_test\.cc$|/test", path):
            for name in TYPE.findall(text):
                layers.setdefault(name, set()).add(layer_of(path))
    return [f"{GLOSSARY}: {len(where)} layers have a type '{name}': give it a row"
            for name, where in sorted(layers.items())
            if len(where) >= SHARED and name not in EVERYDAY and name not in names]


CITED = re.compile(r"\b(rule|lesson)s? (\d+(?:(?:, | and )(?:rule )?\d+)*)\b")


def rules_without_row(texts, page):
    """Rules and lessons that a comment or page names, and that docs/internals/rules.md does not have."""
    kinds = dict(zip(("rule", "lesson"), page.split("## Lessons")))
    known = {(kind, row[0]) for kind, part in kinds.items() for row in rows_of(part)}
    cited = {(kind, number) for text in texts for kind, numbers in CITED.findall(text)
             for number in re.findall(r"\d+", numbers)}
    return [f"{RULES}: a comment or page names {kind} {number}: give it a row"
            for kind, number in sorted(cited - known)]


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
    problems += shared_without_row(
        {str(path.relative_to(root)): text for path, text in sources.items()}, names)
    types, words = replaced_words(glossary)
    texts = {**sources, **{path: path.read_text(encoding="utf-8") for path in pages(root)}}
    uses = [use for path, text in texts.items()
            for use in replaced_uses(str(path.relative_to(root)), text, types, words)]
    exceptions = [line for line in (root / EXCEPTIONS).read_text(encoding="utf-8").splitlines()
                  if line and not line.startswith("#")]
    problems += problems_of(uses, exceptions)
    problems += rules_without_row(texts.values(), (root / RULES).read_text(encoding="utf-8"))
    if not names or not types or not words or not sources:
        problems.append(f"{GLOSSARY}: its tables are not as this test reads them")
    for problem in problems:
        print(problem)
    print(f"glossary: {len(names)} names and {len(texts)} files looked at, "
          f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
