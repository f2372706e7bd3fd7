"""Writes a copy of a layer that can make each mistake of mutants.txt.

Usage: make_mutants.py SOURCES OUT [MUTANTS]     SOURCES: a folder like src/machine; OUT gets the
copies; MUTANTS: another list than SOURCES/mutants/mutants.txt

Each mistake becomes a branch on `mutant`, a number that the environment variable HOLDFAST_MUTANT
sets at start, so that one build serves them all. A text that is no longer found in its file, or
found twice, is an error here: a list of mistakes that rots unnoticed is worth nothing. A mistake
that takes several changes has a pair of lines for each.
"""

import re
import sys
from pathlib import Path

HEADER = """#pragma once
#include <cstdlib>
namespace holdfast::machine {
inline const char* const mutant_text = std::getenv("HOLDFAST_MUTANT");
inline const int mutant = mutant_text != nullptr ? std::atoi(mutant_text) : 0;
}
"""


def read_mutants(path):
    """[(number, file, words, [(original, mutated), ...])]"""
    entry = re.compile(r"(\d+) (\S+): (.+)\n((?:- .+\n\+ .+\n)+)")
    text = re.sub(r"(?m)^#.*\n", "", path.read_text())
    mutants = []
    for block in filter(None, (block.strip() for block in text.split("\n\n"))):
        match = entry.fullmatch(block + "\n")
        if not match:
            sys.exit(f"{path.name}: not understood:\n{block}")
        changes = re.findall(r"- (.+)\n\+ (.+)\n", match[4])
        mutants.append((int(match[1]), match[2], match[3], changes))
    numbers = [mutant[0] for mutant in mutants]
    if not mutants or numbers != list(range(1, len(numbers) + 1)):
        sys.exit(f"{path.name}: the numbers are not 1, 2, 3 ...")
    return mutants


def branch(original, mistakes):
    statement = original.endswith(";")
    for number, mutated in mistakes:
        if statement:
            original = (f"if (::holdfast::machine::mutant == {number}) {{ {mutated} }} "
                        f"else {{ {original} }}")
        else:
            original = f"(::holdfast::machine::mutant == {number} ? ({mutated}) : ({original}))"
    return original


def mutate(name, text, mutants):
    mistakes = {}
    for number, file, _, changes in mutants:
        for original, mutated in changes if file == name else []:
            mistakes.setdefault(original, []).append((number, mutated))
    spans = []
    for original, each in mistakes.items():
        if text.count(original) != 1:
            sys.exit(f"mutant {each[0][0]}: found {text.count(original)} times in {name}: {original}")
        spans.append((text.index(original), original, each))
    spans.sort(reverse=True)
    last = len(text)
    for start, original, each in spans:
        if start + len(original) > last:
            sys.exit(f"mutant {each[0][0]}: its text overlaps another's in {name}: {original}")
        last = start
        text = text[:start] + branch(original, each) + text[start + len(original):]
    if spans:
        # What reads a variable is no constant expression.
        text = text.replace("constexpr bool ", "inline bool ")
        include = '#include "mutant.h"\n'
        if "#pragma once\n" in text:
            text = text.replace("#pragma once\n", "#pragma once\n" + include, 1)
        else:
            text = include + text
    return text


def main():
    sources, out = Path(sys.argv[1]), Path(sys.argv[2])
    listed = sys.argv[3] if len(sys.argv) > 3 else sources / "mutants" / "mutants.txt"
    mutants = read_mutants(Path(listed))
    unknown = {file for _, file, *_ in mutants if not (sources / file).exists()}
    if unknown:
        sys.exit(f"no such files: {unknown}")
    out.mkdir(parents=True, exist_ok=True)
    (out / "mutant.h").write_text(HEADER)
    parts = sources.resolve().parts
    layer = Path(*parts[len(parts) - parts[::-1].index("src"):])
    for path in [*sources.glob("*.h"), *sources.glob("*.cc")]:
        target = out / "src" / layer / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        text = mutate(path.name, path.read_text(), mutants)
        if not target.exists() or target.read_text() != text:
            target.write_text(text)


if __name__ == "__main__":
    main()
